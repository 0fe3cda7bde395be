"""Many slots: the shells that ship, on the simulator."""

from __future__ import annotations

import pytest

from snapline.devtools.simulator.large_job import STEPS_PER_SLOT, large_scenario
from snapline.devtools.simulator.scenario import Fault
from snapline.devtools.simulator.simulation import play


@pytest.mark.slow
def test_hundreds_of_slots_lose_a_subtask_and_go_on() -> None:
    """The benchmark of scale does the same with a thousand."""
    outcome = play(large_scenario(300, faults=frozenset({Fault.SUBTASK_CRASH})), max_steps=300 * STEPS_PER_SLOT)
    assert outcome.error == ""
    assert outcome.coverage["fault: subtask crash"]

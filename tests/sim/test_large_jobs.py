"""Many slots: the shells that ship, on the simulator."""

from __future__ import annotations

import pytest

from snapline.devtools.simulator.large_job import STEPS_PER_SLOT, large_scenario
from snapline.devtools.simulator.scenario import Fault
from snapline.devtools.simulator.simulation import play


@pytest.mark.slow
def test_a_thousand_slots_lose_a_subtask_and_go_on() -> None:
    outcome = play(large_scenario(1000, faults=frozenset({Fault.SUBTASK_CRASH})), max_steps=1000 * STEPS_PER_SLOT)
    assert outcome.error == ""
    assert outcome.coverage["fault: subtask crash"]

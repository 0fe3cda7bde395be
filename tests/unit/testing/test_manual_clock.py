"""Time that a test moves by hand."""

from __future__ import annotations

import pickle
from datetime import timedelta

import cloudpickle
import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.testing import ManualClock, OperatorHarness


def test_time_passes_only_by_advance() -> None:
    clock = ManualClock(500)
    assert (clock(), clock.now_ms) == (500, 500)
    assert clock.advance("2s") == 2_500
    assert clock.advance(timedelta(milliseconds=1)) == clock() == 2_501


@pytest.mark.parametrize("duration", ["-1s", 5, "soon"])
def test_a_duration_that_is_none_is_refused_and_changes_nothing(duration: object) -> None:
    clock = ManualClock(500)
    with pytest.raises(ConfigurationError, match="advance"):
        clock.advance(duration)  # type: ignore[arg-type]
    assert clock() == 500


def test_a_copy_in_the_same_process_is_the_clock_itself() -> None:
    clock = ManualClock()
    assert pickle.loads(cloudpickle.dumps([clock]))[0] is clock


def test_a_clock_of_another_process_is_refused() -> None:
    packed = pickle.dumps(ManualClock())  # gone, as it is in every other process
    with pytest.raises(ConfigurationError, match="only in the process that made it"):
        pickle.loads(packed)


class Stamp(sl.ProcessFunction):
    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def process(self, row: dict[str, object], context: sl.ProcessContext) -> None:
        context.emit({"at": self._clock(), "task": context.processing_time_ms})


def test_functions_and_their_tasks_share_a_clock() -> None:
    clock = ManualClock(7_000)
    rows = sl.Job("stamps").source(sl.sources.Iterator([{"n": 1}]), uid="rows")
    stamped = rows.process(Stamp(clock), schema="at BIGINT, task BIGINT", uid="stamp")
    with OperatorHarness.of(stamped, clock=clock) as harness:
        harness.advance("3s")
        harness.process([{"n": 1}])
        assert harness.rows() == [{"at": 10_000, "task": 10_000}]

"""Whether a coordinator takes checkpoints."""

from __future__ import annotations

import pytest

from snapline.errors import IllegalTransitionError
from snapline.protocol.coordinator.activity import ACTIVITY, Activity


def test_a_stop_that_fails_goes_back_to_taking_checkpoints() -> None:
    activity = ACTIVITY.initial
    for cause in ("all tasks running", "stop with savepoint", "savepoint failed"):
        activity = ACTIVITY.step(activity, cause)
    assert activity is Activity.ACTIVE


@pytest.mark.parametrize("activity", list(Activity))
def test_a_job_may_leave_its_running_state_at_any_time(activity: Activity) -> None:
    assert ACTIVITY.step(activity, "job left running") is Activity.CLOSED


def test_a_job_that_does_not_run_cannot_stop_with_a_savepoint() -> None:
    with pytest.raises(IllegalTransitionError):
        ACTIVITY.step(Activity.WAITING, "stop with savepoint")

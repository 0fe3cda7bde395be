"""Which jobs take a last checkpoint."""

from __future__ import annotations

import pytest

from snapline.config import Checkpoints, FixedDelay, NoRestart, RestartStrategy
from snapline.graph.job_spec import takes_last_checkpoint


@pytest.mark.parametrize(
    ("checkpoints", "restart", "expected"),
    [
        (Checkpoints(), NoRestart(), False),
        (Checkpoints(interval="1s"), NoRestart(), True),
        (Checkpoints(), FixedDelay(), True),
        (Checkpoints(storage="/chk"), NoRestart(), True),
        (Checkpoints(interval="1s", after_tasks_finish=False), FixedDelay(), False),
    ],
    ids=["never goes back", "periodic", "may go back", "a new driver may resume it", "not after tasks have finished"],
)
def test_a_job_that_may_go_back_makes_nothing_final_without_a_checkpoint(
    checkpoints: Checkpoints, restart: RestartStrategy, expected: bool
) -> None:
    assert takes_last_checkpoint(checkpoints, restart) is expected

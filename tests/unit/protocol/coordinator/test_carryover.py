"""What outlives an attempt within one driver."""

from __future__ import annotations

from snapline.config import Checkpoints
from snapline.protocol.coordinator.carryover import Carryover
from snapline.types import FailureReason, SnapshotKind


def test_a_fresh_one_follows_the_settings() -> None:
    carryover = Carryover.fresh(Checkpoints(interval="10s", history=1, tolerable_failures=0))
    assert carryover.last_completed_ms is None
    assert carryover.schedule.start(0, 0.5) == 5_000
    for checkpoint_id in (1, 2):
        carryover.statistics.created(checkpoint_id, SnapshotKind.CHECKPOINT, None, 0, {"v": 1}, unaligned=False)
    assert [record.id for record in carryover.statistics.snapshot().history] == [2]
    reason = FailureReason.CHECKPOINT_EXPIRED
    assert carryover.failures.failed(1, reason, savepoint=False, synchronous=False, from_task=False)

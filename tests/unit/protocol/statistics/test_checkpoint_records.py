"""Records of checkpoints: what follows from the numbers that are kept."""

from __future__ import annotations

import pytest

from snapline.protocol.statistics.checkpoint_records import (
    NO_ACK,
    CheckpointRecord,
    CheckpointType,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
    duration_ms,
)
from snapline.types import SnapshotKind


@pytest.mark.parametrize(
    ("kind", "configured", "reported", "expected"),
    [
        (SnapshotKind.CHECKPOINT, False, False, CheckpointType.CHECKPOINT),
        (SnapshotKind.CHECKPOINT, True, False, CheckpointType.UNALIGNED_CHECKPOINT),
        (SnapshotKind.CHECKPOINT, False, True, CheckpointType.UNALIGNED_CHECKPOINT),
        (SnapshotKind.SAVEPOINT, False, False, CheckpointType.SAVEPOINT),
        (SnapshotKind.SAVEPOINT, True, True, CheckpointType.SAVEPOINT),
        (SnapshotKind.SYNC_SAVEPOINT, False, True, CheckpointType.SYNC_SAVEPOINT),
    ],
)
def test_the_type_that_is_shown(kind: SnapshotKind, configured: bool, reported: bool, expected: CheckpointType) -> None:
    totals = Totals(2).with_ack(1_100, SubtaskMetrics(unaligned=reported)).with_ack(1_100, SubtaskMetrics())
    assert CheckpointRecord(1, kind, None, 1_000, configured, totals, ()).type is expected


def test_sizes_that_were_not_measured_count_as_nothing() -> None:
    metrics = SubtaskMetrics(-1, -1, processed_bytes=-1, persisted_bytes=-1)
    assert Totals(3).with_ack(1_200, metrics) == Totals(3, 1, 1_200)


def test_the_summary_of_a_vertex_is_over_its_acknowledged_subtasks() -> None:
    subtasks = (
        SubtaskStatistics(0, 1_100, 100, SubtaskMetrics(1, 2, 3, 4, 5, 6, 7, 8)),
        SubtaskStatistics(1),
        SubtaskStatistics(2, 1_300, 300, SubtaskMetrics(11, 12, 13, 14, 15, 16, 17, 18)),
    )
    summary = VertexStatistics("v", 1_000, Totals(3, 2, 1_300), subtasks).summary()
    assert [
        (measurement.count, measurement.min, measurement.max)
        for measurement in (
            summary.checkpointed_bytes,
            summary.state_bytes,
            summary.sync_ms,
            summary.async_ms,
            summary.alignment_ms,
            summary.start_delay_ms,
            summary.processed_bytes,
            summary.persisted_bytes,
            summary.end_to_end_duration_ms,
        )
    ] == [(2, n, n + 10) for n in range(1, 9)] + [(2, 100, 300)]


@pytest.mark.parametrize(("end_ms", "expected"), [(NO_ACK, NO_ACK), (1_300, 300), (900, 0)])
def test_a_duration_is_unknown_or_not_negative(end_ms: int, expected: int) -> None:
    assert duration_ms(1_000, end_ms) == expected

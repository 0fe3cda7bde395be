from __future__ import annotations

from dataclasses import replace

import pytest

from snapline.devtools.kit.sample_views import STARTED_MS, sample_record, sample_statistics
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import Explanation, PathPart, PathStep, SlowCause
from snapline.web.own_checkpoints import (
    checkpoint_details,
    checkpoint_row,
    completed_summary_row,
    counts_row,
    failure_row,
    latest_commit_ms,
    restored_row,
)

PATH = (PathStep(PathPart.ALIGNMENT, "clicks", 1, 5, 9), PathStep(PathPart.COMPLETION, "", None, 9, 12))
EXPLANATION = Explanation(4, SlowCause.SKEW, "subtask 1", "add keys", "clicks", 1, PATH)


def test_a_completed_checkpoint() -> None:
    row = checkpoint_row(sample_record(4), EXPLANATION)
    assert (row.id, row.status.value, row.type.value, row.completed_ms) == (
        4,
        "COMPLETED",
        "CHECKPOINT",
        STARTED_MS + 4300,
    )
    assert (row.subtasks, row.acknowledged, row.end_to_end_duration_ms) == (6, 6, 102)
    assert (row.external_path, row.discarded, row.failure) == ("/data/clicks/chk-4", False, None)
    assert row.commit_ms == 7
    assert row.explanation is not None
    assert (row.explanation.cause, row.explanation.subtask) == (SlowCause.SKEW, 1)


def test_a_failed_one_and_one_in_progress() -> None:
    failed = checkpoint_row(sample_record(4, failed=True), None)
    assert failed.failure is not None
    assert failed.failure.reason.value == "CHECKPOINT_EXPIRED"
    assert (failed.completed_ms, failed.explanation, failed.end_to_end_duration_ms) == (-1, None, 500)
    running = checkpoint_row(sample_record(4, running=True), None)
    assert (running.status.value, running.acknowledged, running.completed_ms) == ("IN_PROGRESS", 3, -1)


def test_details_have_the_path_and_all_subtasks() -> None:
    details = checkpoint_details(sample_record(4, running=True), EXPLANATION)
    assert details.explanation is not None
    assert [(step.part, step.from_ms, step.to_ms) for step in details.explanation.path] == [
        (PathPart.ALIGNMENT, 5, 9),
        (PathPart.COMPLETION, 9, 12),
    ]
    clicks = details.vertices[0]
    assert (clicks.id, clicks.parallelism, clicks.acknowledged) == ("clicks", 2, 1)
    assert [(part.index, part.acknowledged, part.has_metrics) for part in clicks.subtasks] == [
        (0, True, True),
        (1, False, False),
    ]
    assert clicks.subtasks[1].sync_ms == clicks.subtasks[1].state_bytes == -1
    assert clicks.summary.checkpointed_bytes.count == 1
    assert checkpoint_details(sample_record(4), None).explanation is None


@pytest.mark.parametrize("packed", [False, True])
def test_the_latest_commit_counts(packed: bool) -> None:
    assert latest_commit_ms(sample_record(4, packed=packed)) == 7


def test_without_vertices_nothing_is_committed() -> None:
    record: CheckpointRecord = replace(sample_record(4), vertices=())
    assert latest_commit_ms(record) == -1


def test_the_rest_of_the_statistics() -> None:
    statistics = sample_statistics(4)
    counts = counts_row(statistics.counts)
    assert (counts.total, counts.in_progress, counts.completed, counts.failed, counts.restored) == (4, 1, 2, 1, 1)
    summary = completed_summary_row(statistics.summary)
    assert (summary.end_to_end_duration_ms.count, summary.end_to_end_duration_ms.max) == (2, 102)
    restored = restored_row(statistics.latest.restored)
    assert restored is not None
    assert (restored.id, restored.left_behind) == (7, ("old",))
    assert restored_row(None) is None
    assert failure_row(None) is None

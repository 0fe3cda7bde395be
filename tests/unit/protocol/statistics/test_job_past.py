"""What is kept of a job for the next driver: its limits, and how several pasts become one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapline.devtools.kit.sample_views import long_history, sample_record, sample_statistics, sample_view
from snapline.protocol.statistics import job_past
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus, SubtaskMetrics
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics
from snapline.protocol.statistics.job_past import JobPast, PublishedSnapshot, bounded, joined
from snapline.protocol.statistics.job_view import AttemptFailure, JobView
from snapline.types import FailureReason, SnapshotKind


def run(statistics: CheckpointStatistics, checkpoint_id: int, took_ms: int = 10, *, completes: bool = True) -> None:
    """A checkpoint of two subtasks, each of which took so long and wrote 100 bytes."""
    at_ms = checkpoint_id * 1000
    statistics.created(checkpoint_id, SnapshotKind.CHECKPOINT, None, at_ms, {"a": 1, "b": 1}, unaligned=False)
    for vertex in ("a", "b"):
        statistics.acknowledged(checkpoint_id, vertex, 0, at_ms + took_ms, SubtaskMetrics(100, 200))
    if completes:
        statistics.completed(checkpoint_id, at_ms + took_ms + 5, f"/data/chk-{checkpoint_id}")


def past_of(statistics: CheckpointStatistics, view: JobView | None = None, *absorbed: str) -> JobPast:
    shown = replace(view or sample_view(), statistics=statistics.snapshot())
    return JobPast(shown, statistics.totals, absorbed)


def published(*ids: int) -> list[PublishedSnapshot]:
    return [
        PublishedSnapshot(number, SnapshotKind.CHECKPOINT, f"/data/chk-{number}", number * 1000, None, 7, 5)
        for number in ids
    ]


# Limits.


def test_old_checkpoints_lose_their_subtasks_then_leave() -> None:
    view = sample_view(checkpoints=60)
    kept = bounded(JobPast(view, {}), 50).view.statistics.history
    assert [record.id for record in kept] == list(range(60, 10, -1))
    assert kept[: job_past.DETAILED_CHECKPOINTS] == view.statistics.history[: job_past.DETAILED_CHECKPOINTS]
    for record in kept[job_past.DETAILED_CHECKPOINTS :]:
        assert [(part.vertex, part.subtasks) for part in record.vertices] == [
            ("clicks", ()), ("per-user", ()), ("out", ()),
        ]  # fmt: skip
        assert record.totals == view.statistics.history[60 - record.id].totals


def test_a_wide_job_keeps_fewer_details() -> None:
    history = long_history(40, subtasks=2000)
    kept = bounded(JobPast(sample_view(statistics=history), {}), 40).view.statistics.history
    assert [bool(record.vertices[0].subtasks) for record in kept] == [True] * 2 + [False] * 38
    many = {f"v{number}": 1 for number in range(1000)}
    kept = bounded(JobPast(sample_view(checkpoints=30, vertices=many), {}), 30).view.statistics.history
    assert [len(record.vertices) for record in kept] == [1000] * 20 + [0] * 10
    assert all(record.totals.subtasks == 1000 for record in kept)


def test_failures_events_tasks_and_explanations_are_limited() -> None:
    failures = tuple(AttemptFailure(number, number, "x" * 5000, "trace", "log") for number in range(200))
    events = tuple((number, "event") for number in range(3000))
    view = replace(sample_view(checkpoints=40), failures=failures, events=events)
    explained = {number: replace(view.explanations[1], checkpoint_id=number) for number in range(1, 41)}
    view = replace(view, explanations=explained, subtasks=view.subtasks * 1000)
    kept = bounded(JobPast(view, {}), 30).view
    assert len(kept.failures) == job_past.MAX_FAILURES
    assert {len(failure.cause) for failure in kept.failures} == {job_past.MAX_CAUSE_CHARACTERS}
    assert [bool(failure.trace) for failure in kept.failures[:12]] == [True] * 10 + [False] * 2
    assert kept.events == events[-job_past.MAX_EVENTS :]
    assert kept.subtasks == ()
    assert sorted(kept.explanations) == list(range(11, 41))
    assert [bool(kept.explanations[number].path) for number in (40, 21, 20, 11)] == [True, True, False, False]
    assert kept.url == ""


def test_the_latest_ones_are_kept_even_when_they_have_left_the_history() -> None:
    view = sample_view(checkpoints=60)
    latest = bounded(JobPast(view, {}), 10).view.statistics.latest
    assert (latest.completed, latest.failed and latest.failed.id, latest.savepoint and latest.savepoint.id) == (
        view.statistics.history[1], 1, 2,
    )  # fmt: skip
    assert latest.restored == view.statistics.latest.restored
    assert latest.not_started == view.statistics.latest.not_started


# Several drivers.


def test_pasts_add_up() -> None:
    first, second = CheckpointStatistics(), CheckpointStatistics()
    for number, took_ms in ((1, 10), (2, 30)):
        run(first, number, took_ms)
    first.restored(7, 500, is_savepoint=True, external_path="/sp")
    run(second, 3, 50)
    run(second, 4, completes=False)
    second.failed(4, 5000, FailureReason.CHECKPOINT_EXPIRED, "late")
    second.failed(None, 6000, FailureReason.IO_EXCEPTION)
    view = sample_view()
    later = replace(
        view,
        attempt=5,
        failures=(AttemptFailure(9, 4, "second"),),
        failed_attempts=3,
        events=((9, "later"),),
        explanations={4: replace(view.explanations[1], checkpoint_id=4)},
    )
    whole = joined([past_of(first, view, "a"), past_of(second, later, "b", "c")], published(3))
    statistics = whole.view.statistics
    counts = statistics.counts
    assert (counts.restored, counts.total, counts.completed, counts.failed, counts.in_progress) == (1, 5, 3, 2, 0)
    assert [record.id for record in statistics.history] == [4, 3, 2, 1]
    assert [record.completion and record.completion.discarded for record in statistics.history] == [
        None, False, True, True,
    ]  # fmt: skip
    duration = statistics.summary.end_to_end_duration_ms
    assert (duration.count, duration.min, duration.max, duration.avg, duration.p50) == (3, 10, 50, 30, 30.0)
    assert whole.totals["end_to_end_duration_ms"] == 90
    assert statistics.latest.completed is statistics.history[1]
    assert statistics.latest.restored is not None
    assert statistics.latest.not_started is not None
    assert (whole.view.attempt, whole.view.failed_attempts) == (5, 4)
    assert [failure.cause for failure in whole.view.failures] == ["second", "ValueError: no"]
    assert [text for _, text in whole.view.events] == ["CREATED -> RUNNING", "checkpoint 1 failed", "later"]
    assert sorted(whole.view.explanations) == [1, 4]
    assert whole.absorbed == ("a", "b", "c")


def test_what_a_killed_driver_had_in_progress_failed() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    run(statistics, 2, completes=False)
    whole = joined([past_of(statistics)], published(1)).view.statistics
    assert (whole.counts.completed, whole.counts.failed, whole.counts.in_progress) == (1, 1, 0)
    failure = whole.history[0].failure
    assert failure is not None
    assert failure.reason is FailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
    assert "driver was gone" in failure.message


def test_what_it_published_after_its_last_note_is_complete() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    run(statistics, 2, 40, completes=False)
    whole = joined([past_of(statistics)], published(2)).view.statistics
    assert [record.status for record in whole.history] == [CheckpointStatus.COMPLETED] * 2
    assert (whole.counts.completed, whole.summary.end_to_end_duration_ms.max) == (2, 40)
    assert whole.latest.completed is whole.history[0]
    assert [record.completion and record.completion.discarded for record in whole.history] == [False, True]


def test_what_it_began_after_its_last_note_is_found_by_its_files() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    run(statistics, 2, completes=False)
    whole = joined([past_of(statistics)], published(5)).view.statistics
    # nobody knows how checkpoint 2 ended, and only the files of 5 say that there were more
    assert [record.id for record in whole.history] == [5, 1]
    assert (whole.counts.total, whole.counts.completed, whole.counts.failed) == (2, 2, 0)
    assert whole.history[0].totals.state_bytes == 7
    assert whole.summary.state_bytes.count == 1, "nobody knows its measurements"
    assert whole.history[0].end_to_end_duration_ms == -1


def test_a_driver_that_may_still_run_has_its_checkpoint_in_progress() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    run(statistics, 2, completes=False)
    whole = joined([past_of(statistics)], published(1), is_over=False).view.statistics
    assert (whole.counts.in_progress, whole.history[0].status) == (1, CheckpointStatus.IN_PROGRESS)


def test_without_a_journal_nothing_counts_as_deleted() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    whole = joined([past_of(statistics)], None).view.statistics
    assert whole.history[0].completion is not None
    assert not whole.history[0].completion.discarded


def test_a_snapshot_of_an_unknown_time_is_no_news() -> None:
    statistics = CheckpointStatistics()
    run(statistics, 1)
    bare = PublishedSnapshot(9, SnapshotKind.SAVEPOINT, "/elsewhere")
    assert [record.id for record in joined([past_of(statistics)], [bare]).view.statistics.history] == [1]


# Going on.


def test_statistics_go_on_where_the_last_ones_ended() -> None:
    before, after = CheckpointStatistics(history=3), CheckpointStatistics(history=3)
    for number in (1, 2, 3, 4):
        run(before, number, took_ms=10 * number)
    run(after, 5, took_ms=90)
    after.preceded_by(before.snapshot(), before.totals)
    run(after, 6, took_ms=100)
    now = after.snapshot()
    assert [record.id for record in now.history] == [6, 5, 4]
    assert (now.counts.completed, now.counts.total) == (6, 6)
    duration = now.summary.end_to_end_duration_ms
    assert (duration.count, duration.min, duration.max, duration.avg) == (6, 10, 100, (10 + 20 + 30 + 40 + 190) // 6)
    assert duration.p50 == 40.0, "of the five that were kept: 20, 30, 40, 90, 100"
    assert now.latest.completed is now.history[0]
    assert after.discarded(4)
    assert after.committed(5, "a", 0, 12)


def test_a_summary_whose_values_are_lost_still_has_percentiles() -> None:
    before, after = CheckpointStatistics(history=0), CheckpointStatistics()
    run(before, 1, took_ms=30)
    after.preceded_by(before.snapshot(), {})
    duration = after.snapshot().summary.end_to_end_duration_ms
    assert (duration.count, duration.avg, duration.p50) == (1, 30, 30.0)


def test_nothing_is_lost_if_both_have_the_same_kinds() -> None:
    statistics = CheckpointStatistics(history=10)
    statistics.preceded_by(sample_statistics(4), {})
    now = statistics.snapshot()
    assert (now.counts.restored, now.counts.completed, now.counts.failed, now.counts.in_progress) == (1, 2, 1, 1)
    assert now.latest.savepoint is not None
    assert now.failures_by_reason == {FailureReason.CHECKPOINT_EXPIRED: 1}


@pytest.mark.parametrize("packed", [False, True])
def test_subtasks_of_earlier_drivers_stay_packed_or_not(packed: bool) -> None:
    record = sample_record(1, packed=packed)
    statistics = CheckpointStatistics()
    statistics.preceded_by(replace(sample_statistics(1), history=(record,)), {})
    assert statistics.snapshot().history[0] == record

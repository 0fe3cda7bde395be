from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from pyspark.sql.streaming.listener import StreamingQueryProgress

from snapline.devtools.kit.sample_views import sample_view
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.job_view import JobView
from snapline.sql.query_progress import ProgressLog, is_over
from snapline.types import JobStatus


def view() -> JobView:
    """A job whose last checkpoint is complete."""
    given = sample_view()
    record = next(each for each in given.statistics.history if each.completion is not None)
    return _with(given, record)


def _with(given: JobView, record: CheckpointRecord | None) -> JobView:
    latest = replace(given.statistics.latest, completed=record)
    return replace(given, statistics=replace(given.statistics, latest=latest))


def log() -> ProgressLog:
    return ProgressLog({"id": str(uuid4()), "runId": str(uuid4()), "name": "q"}, "memory", {})


def test_an_entry_has_sparks_fields_as_items_and_as_attributes() -> None:
    made = log()
    just_now = view().statistics.latest.completed.completion.completed_ms  # type: ignore[union-attr]
    made.look(replace(view(), now_ms=just_now))
    assert made.entries == [], "tasks have not reported yet"
    made.look(replace(view(), now_ms=just_now), is_settled=True)
    made.look(view())
    (entry,) = made.entries
    assert isinstance(entry, StreamingQueryProgress)
    assert entry["name"] == entry.name == "q"
    assert entry["numInputRows"] == entry.numInputRows == sum(source.numInputRows for source in entry.sources)
    assert entry.numInputRows > 0
    assert entry.sources[0].startOffset == '{"rows": 0}'
    assert entry.sink.description == "memory"
    assert entry.durationMs["triggerExecution"] >= 0
    assert entry.batchId == view().statistics.latest.completed.id  # type: ignore[union-attr]
    assert "watermark" in entry.eventTime
    assert {state.operatorName for state in entry.stateOperators}
    assert entry.json


def test_rows_count_from_the_entry_before_on_and_anew_in_another_attempt() -> None:
    made, given = log(), view()
    made.look(given)
    record = given.statistics.latest.completed
    assert record is not None
    for more, attempt in ((1, given.attempt), (2, given.attempt + 1)):
        made.look(replace(_with(given, replace(record, id=record.id + more)), attempt=attempt))
    first, second, third = (entry.numInputRows for entry in made.entries)
    assert second == 0
    assert third == first


def test_a_job_without_a_checkpoint_has_no_entries() -> None:
    made, given = log(), view()
    made.look(_with(given, None))
    assert made.entries == []
    assert is_over(replace(given, status=JobStatus.SUSPENDED))
    assert not is_over(replace(given, status=JobStatus.RUNNING))


def test_checkpoints_that_follow_one_another_fast_get_entries_too() -> None:
    made, given = log(), view()
    record = given.statistics.latest.completed
    assert record is not None
    assert record.completion is not None
    start_ms = record.completion.completed_ms
    for number in range(10):
        now_ms = start_ms + 200 * number
        newest = replace(record, id=number + 1, completion=replace(record.completion, completed_ms=now_ms))
        made.look(replace(_with(given, newest), now_ms=now_ms))
    assert [entry.batchId for entry in made.entries] == [1, 5]

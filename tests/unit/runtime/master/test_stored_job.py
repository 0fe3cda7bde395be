"""Jobs that are only read from their storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from snapline.config import Checkpoints
from snapline.devtools.kit.sample_views import sample_view
from snapline.errors import ConfigurationError, StorageError
from snapline.protocol.journal import Record, RecordKind
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import KeyedPart, OperatorState, Snapshot, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus
from snapline.protocol.statistics.job_past import JobPast
from snapline.runtime.master.stored_job import REFRESH_S, StoredJob, stored_jobs
from snapline.storage import snapshot_metadata
from snapline.storage.history_format import encode
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import CheckpointScope, JobStatus, SavepointFormat, SnapshotKind

ROOT = "memory://jobs"
JOB = f"{ROOT}/clicks"


class Setup:
    """Storage with what drivers have left there, and a job that shows it."""

    def __init__(self) -> None:
        self.objects = MemoryObjects()
        self.now_s = 0.0
        self.job = self.shown(JOB)

    def shown(self, directory: str) -> StoredJob:
        return StoredJob(self.objects, directory, time_s=lambda: self.now_s, wall_ms=lambda: 9_000_000_000_000)

    def leave_history(self, attempt: int = 2, **values: Any) -> None:
        view = replace(sample_view("clicks", checkpoints=4), **values)
        self.objects.write(f"{JOB}/monitor/history-{attempt}-t.json.gz", encode(JobPast(view, {})))

    def leave_journal(self, *ids: int, end: JobStatus | None = None, attempt: int = 2) -> None:
        journal = ObjectJournal(self.objects, f"{JOB}/journal")
        records = [Record(RecordKind.CLAIM, attempt, "t")]
        for sequence, number in enumerate(ids):
            location = f"{JOB}/chk-{number}"
            records.append(Record(RecordKind.CHECKPOINT, attempt, "t", sequence, number, location))
            part = KeyedPart(KeyGroupRange(0, 127), (StoredObject(f"{location}/a", 10),))
            operators = {"per-user": OperatorState("per-user", 3, 128, {0: SubtaskState(keyed=(part,))})}
            made = Snapshot(number, SnapshotKind.CHECKPOINT, attempt, number * 1000, location, operators)
            self.objects.write(made.metadata_path, snapshot_metadata.encode(made))
        if end is not None:
            records.append(Record(RecordKind.SEAL, attempt, "t", len(ids)))
            records.append(Record(RecordKind.END, attempt + 1, "t", status=end))
        for record in records:
            journal.create(record)


@pytest.fixture
def setup() -> Iterator[Setup]:
    made = Setup()
    yield made
    made.job.close()


def test_the_view_is_that_of_the_last_driver(setup: Setup) -> None:
    setup.leave_history()
    setup.leave_journal(3)
    view = setup.job.view().result(10)
    assert (view.job_id, view.name, view.status, view.attempt) == ("clicks", "job clicks", JobStatus.RUNNING, 2)
    assert not view.is_live
    assert not setup.job.can_change
    assert (setup.job.job_id, setup.job.name) == ("clicks", "job clicks")
    assert view.now_ms == 9_000_000_000_000
    assert [record.id for record in view.statistics.history] == [4, 3, 2, 1]
    assert view.statistics.history[0].status is CheckpointStatus.IN_PROGRESS, "its driver may still run"
    assert [vertex.id for vertex in view.plan.vertices] == ["clicks", "per-user", "out"]
    assert view.health.line.startswith("last seen RUNNING ")
    assert view.health.line.endswith("whether a driver runs it now is not known")


def test_a_job_that_has_ended_says_how(setup: Setup) -> None:
    setup.leave_history()
    setup.leave_journal(3, end=JobStatus.CANCELED)
    view = setup.job.look()
    assert (view.status, view.attempt) == (JobStatus.CANCELED, 2)
    assert view.statistics.counts.in_progress == 0
    assert view.health.line == "cancelled"


def test_without_a_history_the_journal_and_the_checkpoints_tell_what_they_can(setup: Setup) -> None:
    setup.leave_journal(3, 5)
    view = setup.job.look()
    assert (view.name, view.status, view.attempt) == ("clicks", JobStatus.SUSPENDED, 2)
    assert [record.id for record in view.statistics.history] == [5, 3]
    assert view.statistics.counts.completed == 2
    assert [(vertex.id, vertex.parallelism) for vertex in view.plan.vertices] == [("per-user", 3)]
    assert view.checkpoints.storage == ROOT


def test_without_anything_readable_there_is_still_a_view(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    setup.objects.write(f"{JOB}/monitor/history-1-t.json.gz", b"?")
    setup.objects.write(f"{JOB}/journal/claims/0000000000000000001", b"?")
    for _ in range(2):
        view = setup.job.look()
    assert (view.plan.vertices, view.statistics.history) == ((), ())
    assert len(caplog.records) == 2, "each is said once"


def test_files_are_looked_at_again_after_a_while(setup: Setup) -> None:
    setup.leave_history()
    first = setup.job.view().result(10)
    setup.leave_history(failed_attempts=9)
    assert setup.job.view().result(10) is first
    setup.now_s = REFRESH_S
    assert setup.job.view().result(10).failed_attempts == 9


def test_what_has_not_changed_is_not_read_again(setup: Setup) -> None:
    setup.leave_history()
    assert setup.job.look().statistics is setup.job.look().statistics


def test_storage_that_fails_fails_the_view_and_not_the_next(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.leave_history()

    def fail(directory: str) -> Any:
        raise StorageError("no answer")

    with monkeypatch.context() as failing:
        failing.setattr(setup.objects, "list", fail)
        with pytest.raises(StorageError):
            setup.job.view().result(10)
    setup.now_s = REFRESH_S
    assert setup.job.view().result(10).name == "job clicks"


def test_jobs_that_share_a_directory_find_their_checkpoints_there(setup: Setup) -> None:
    shared = sample_view("clicks", checkpoints=4, settings=Checkpoints(storage=ROOT, create_subdirectory=False))
    setup.objects.write(f"{JOB}/monitor/history-2-t.json.gz", encode(JobPast(shared, {})))
    location = f"{ROOT}/chk-9"
    made = Snapshot(9, SnapshotKind.CHECKPOINT, 2, 9000, location, {})
    setup.objects.write(made.metadata_path, snapshot_metadata.encode(made))
    journal = ObjectJournal(setup.objects, f"{JOB}/journal")
    journal.create(Record(RecordKind.CLAIM, 2, "t"))
    journal.create(Record(RecordKind.CHECKPOINT, 2, "t", 0, 9, location))
    assert setup.job.look().statistics.history[0].id == 9


def test_nothing_can_be_changed(setup: Setup) -> None:
    setup.leave_history()
    job = setup.job
    for answer in (
        job.checkpoint(CheckpointScope.FULL),
        job.savepoint("/d", SavepointFormat.NATIVE),
        job.stop(None, None, drain=False),
        job.cancel(),
        job.dispose("/d/savepoint"),
    ):
        with pytest.raises(ConfigurationError, match="start it"):
            answer.result(0)


# Where jobs are.


def test_a_directory_of_one_job_and_of_several() -> None:
    setup = Setup()
    setup.leave_history()
    setup.objects.write(f"{ROOT}/orders/journal/claims/1", b"")
    setup.objects.write(f"{ROOT}/old/chk-3/_metadata", b"")
    setup.objects.write(f"{ROOT}/out/part.parquet", b"")
    for path, expected in (
        (ROOT, ["clicks", "old", "orders"]),
        (f"{ROOT}/", ["clicks", "old", "orders"]),
        (JOB, ["clicks"]),
    ):
        jobs = stored_jobs(setup.objects, path)
        assert [job.job_id for job in jobs] == expected
        for job in jobs:
            job.close()


@pytest.mark.parametrize("path", [f"{ROOT}/out", "memory://nowhere", "/"])
def test_where_no_job_is(path: str) -> None:
    setup = Setup()
    setup.objects.write(f"{ROOT}/out/part.parquet", b"")
    with pytest.raises(ConfigurationError, match="directory of a job"):
        stored_jobs(setup.objects, path)


def test_an_empty_journal_says_nothing(setup: Setup) -> None:
    setup.leave_history(status=JobStatus.SUSPENDED)
    view = setup.job.look()
    assert view.statistics.counts.in_progress == 0, "a driver that has left has nothing in progress"

"""What is at a path: a snapshot, the directory of a job, or neither."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.state.inspection.snapshot_kit import JOB, write_checkpoint

from snapline.devtools.kit.faulty_objects import FaultyObjects
from snapline.errors import RestoreError, StorageError
from snapline.protocol.journal import Journal
from snapline.state.inspection.job_directory import Condition, JobFacts, inspect_path
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import SnapshotKind


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.mark.parametrize("path", [f"{JOB}/chk-7", f"{JOB}/chk-7/", f"{JOB}/chk-7/_metadata"])
def test_a_snapshot_is_found_by_its_directory_and_its_metadata(objects: MemoryObjects, path: str) -> None:
    snapshot = write_checkpoint(objects)
    assert inspect_path(objects, path) == snapshot


def test_a_store_that_fails_is_not_reported_as_damage(objects: MemoryObjects) -> None:
    for number in (7, 8):
        write_checkpoint(objects, number)
    calls = FaultyObjects(objects)
    inspect_path(calls, JOB)
    for fail_at in range(1, len(calls.calls) + 1):
        with pytest.raises(StorageError, match="injected"):
            inspect_path(FaultyObjects(objects, fail_at), JOB)


def _job(objects: MemoryObjects) -> JobFacts:
    found = inspect_path(objects, JOB)
    assert isinstance(found, JobFacts)
    return found


def test_a_job_directory_says_which_checkpoint_to_take(objects: MemoryObjects) -> None:
    for number in (7, 8, 9, 10):
        write_checkpoint(objects, number)
    objects.write(f"{JOB}/chk-9/_metadata", b"{}")
    objects.delete([f"{JOB}/chk-10/_metadata"])
    job = _job(objects)
    assert [(it.id, it.condition) for it in job.checkpoints] == [
        (7, Condition.COMPLETE),
        (8, Condition.COMPLETE),
        (9, Condition.DAMAGED),
        (10, Condition.HALF_WRITTEN),
    ]
    assert job.restore_from == f"{JOB}/chk-8"
    assert "no journal" in job.note
    whole = objects.read(f"{JOB}/chk-8/a1-a%2Fb-1-one")
    objects.write(f"{JOB}/chk-8/a1-a%2Fb-1-one", whole[:-1])
    job = _job(objects)
    assert job.checkpoints[1].condition is Condition.DAMAGED
    assert job.checkpoints[1].problem == f"1 of its files are cut off, {JOB}/chk-8/a1-a%2Fb-1-one among them"
    assert job.restore_from == f"{JOB}/chk-7"
    objects.delete([f"{JOB}/chk-8/a1-a%2Fb-1-one"])
    job = _job(objects)
    assert job.checkpoints[1].condition is Condition.FILES_MISSING
    assert job.checkpoints[1].problem == f"1 of its files are not there, {JOB}/chk-8/a1-a%2Fb-1-one among them"
    assert job.restore_from == f"{JOB}/chk-7"
    objects.delete([f"{JOB}/chk-7/_metadata"])
    assert _job(objects).restore_from is None


def test_a_job_directory_with_a_journal_says_what_was_published(objects: MemoryObjects) -> None:
    old, new = write_checkpoint(objects, 7), write_checkpoint(objects, 8)
    journal = ObjectJournal(objects, f"{JOB}/journal")
    journal.create(Journal().take_over("me"))
    assert _job(objects).note == "the newest complete one; the journal lists none"
    journal.create(journal.read().publish(old, "me"))
    job = _job(objects)
    assert [it.is_published for it in job.checkpoints] == [True, False]
    assert job.restore_from == old.location
    stop = replace(new, id=9, kind=SnapshotKind.SYNC_SAVEPOINT, location="s3://savepoints/savepoint-1")
    journal.create(journal.read().publish(stop, "me"))
    assert _job(objects).restore_from == "s3://savepoints/savepoint-1"
    objects.write(f"{JOB}/journal/claims/{1:019d}", b"damaged")
    job = _job(objects)
    assert job.restore_from == new.location
    assert "the journal cannot be read" in job.note


def test_a_path_that_is_no_snapshot(objects: MemoryObjects) -> None:
    with pytest.raises(RestoreError, match="there is nothing at memory://d/nothing"):
        inspect_path(objects, "memory://d/nothing")
    objects.write("memory://d/half/a1-x", b"x")
    with pytest.raises(RestoreError, match="has no _metadata: half-written or never completed"):
        inspect_path(objects, "memory://d/half")
    write_checkpoint(objects)
    with pytest.raises(RestoreError, match="memory://d holds the jobs job; name"):
        inspect_path(objects, "memory://d")

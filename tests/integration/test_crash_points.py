"""A crash at any step between two checkpoints: the next driver finds one of them whole, and no waste stays for long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from snapline.devtools.kit.faulty_objects import CHANGING_METHODS, FaultyObjects
from snapline.devtools.kit.stored_snapshots import JOURNAL, damage, leftovers, store_objects
from snapline.errors import DamagedError, StorageError
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.retention.retention_rules import keeps
from snapline.protocol.snapshot import Snapshot, StoredObject
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import ClaimMode, ExternalizedRetention, JobStatus


@dataclass(frozen=True, slots=True)
class Place:
    objects: ObjectStore
    directory: str

    def archive(self, token: str, objects: ObjectStore | None = None, kind: type[Archive] = Archive) -> Archive:
        """The archive of a driver; the same token is the same driver. Retries are left out: they would hide a crash."""
        store = objects or self.objects
        journal = ObjectJournal(store, f"{self.directory}/{JOURNAL}")
        return kind(store, journal, self.directory, token, retries=0, retry_pause_s=0)


def new_place() -> Place:
    return Place(MemoryObjects(), "memory://store/job")


@pytest.fixture(params=["memory", pytest.param("files", marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """One empty place after the other."""

    def endless() -> Iterator[Place]:
        number = 0
        while True:
            number += 1
            if request.param == "memory":
                yield new_place()
            else:
                yield Place(FileObjects(retries=0), str(tmp_path / f"{number}" / "job"))

    return endless()


Second = Callable[[Archive, ObjectStore, RetainedSnapshots, StoredObject], None]


def first_checkpoint(place: Place) -> RetainedSnapshots:
    """The driver before anything goes wrong: checkpoint 1 with two shared objects, of which the next needs one."""
    archive = place.archive("driver")
    assert archive.claim()[0].attempt == 1
    assert archive.reserve_id(1, "one") == 1
    one = store_objects(place.objects, archive, 1, 1, shared=["needed", "superfluous"])
    archive.write_metadata(one)
    archive.publish(one)
    retained = RetainedSnapshots.restored(1, [], None, ClaimMode.NO_CLAIM)
    complete(retained, one)
    return retained


def complete(retained: RetainedSnapshots, snapshot: Snapshot) -> tuple[tuple[Snapshot, ...], tuple[StoredObject, ...]]:
    for operator in snapshot.operators.values():
        assert retained.register_all(operator.subtasks.values(), snapshot.id) is None
    retirement = retained.add(snapshot)
    return retirement.delete, retirement.shared


def second_checkpoint(
    archive: Archive, objects: ObjectStore, retained: RetainedSnapshots, needed: StoredObject
) -> None:
    """Checkpoint 2 from its id to the end of checkpoint 1."""
    two = prepared(archive, objects, needed)
    archive.write_metadata(two)
    archive.publish(two)
    clean(archive, retained, two)


def prepared(archive: Archive, objects: ObjectStore, needed: StoredObject) -> Snapshot:
    checkpoint_id = archive.reserve_id(1, "two")
    return store_objects(objects, archive, 1, checkpoint_id, shared=["new"], reused=[needed])


def clean(archive: Archive, retained: RetainedSnapshots, snapshot: Snapshot) -> None:
    old, shared = complete(retained, snapshot)
    for entry in old:
        archive.delete_snapshot(entry, retained)
    archive.delete_shared(shared, retained)


def run(
    place: Place, second: Second, fail_at: int | None, *, after_effect: bool, crash: bool, kind: type[Archive] = Archive
) -> tuple[list[tuple[str, str]], int]:
    """The whole story up to the failure, if there is one: calls to storage from checkpoint 2 on, what is complete."""
    retained = first_checkpoint(place)
    (needed,) = [item for item in retained.snapshots[0].objects() if (item.shared_key or "").endswith("needed")]
    faulty = FaultyObjects(place.objects, fail_at, after_effect=after_effect, crash=crash)
    try:
        second(place.archive("driver", faulty, kind), faulty, retained, needed)
    except StorageError:
        assert fail_at is not None
    return faulty.calls, retained.latest_id


def check_recovery(place: Place, published: set[int]) -> set[int]:
    """What a new driver finds after all this, and what it leaves behind; the ids of what it could recover from."""
    archive = place.archive("next driver")
    journal, is_ours = archive.claim()
    assert is_ours
    recovered = archive.recover(journal.attempt)
    ids = {snapshot.id for snapshot in recovered.snapshots}
    assert recovered.warnings == (), "the journal named what was not there any more"
    assert ids & published, "nothing to recover from"
    assert [damage(place.objects, snapshot) for snapshot in recovered.snapshots] == [[] for _ in ids]
    assert leftovers(place.objects, place.directory, recovered.snapshots) == []

    retained = RetainedSnapshots.restored(1, recovered.snapshots, None, ClaimMode.NO_CLAIM)
    checkpoint_id = archive.reserve_id(journal.attempt, "three")
    assert checkpoint_id not in ids
    three = store_objects(place.objects, archive, journal.attempt, checkpoint_id, shared=["newest"])
    archive.write_metadata(three)
    archive.publish(three)
    clean(archive, retained, three)
    assert damage(place.objects, three) == []
    assert leftovers(place.objects, place.directory, [three]) == []
    assert [record.checkpoint_id for record in archive.read_journal().canonical] == [checkpoint_id]
    return ids


FAILURES = [
    pytest.param(False, False, id="fails before its effect"),
    pytest.param(True, False, id="fails after its effect"),
    pytest.param(False, True, id="crash before its effect"),
    pytest.param(True, True, id="crash after its effect"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("after_effect", "crash"), FAILURES)
def test_a_failure_at_any_step_leaves_a_checkpoint_to_recover_from_and_no_waste(
    places: Iterator[Place], after_effect: bool, crash: bool
) -> None:
    calls, _ = run(next(places), second_checkpoint, None, after_effect=after_effect, crash=crash)
    assert {method for method, _ in calls} >= {"create", "write", "read", "list", "delete", "delete_tree"}
    assert len(calls) >= 30
    found = set()
    for fail_at in range(1, len(calls) + 1):
        place = next(places)
        made, completed = run(place, second_checkpoint, fail_at, after_effect=after_effect, crash=crash)
        assert len(made) >= fail_at
        ids = check_recovery(place, published={1, 2})
        assert max(ids) >= completed, "a driver was told that a checkpoint is complete, and it is lost"
        found.add(frozenset(ids))
    assert found == {frozenset({1}), frozenset({1, 2}), frozenset({2})}


def test_without_a_failure_only_the_second_checkpoint_is_left(places: Iterator[Place]) -> None:
    place = next(places)
    run(place, second_checkpoint, None, after_effect=False, crash=False)
    assert check_recovery(place, published={2}) == {2}


@pytest.mark.parametrize("after_effect", [False, True])
def test_one_failure_at_any_step_of_a_checkpoint_goes_unnoticed(places: Iterator[Place], after_effect: bool) -> None:
    """Of the driver's own steps: with retries on, whatever the outcome of the call that failed."""

    def checkpoint(fail_at: int | None) -> int:
        place = next(places)
        first_checkpoint(place)
        faulty = FaultyObjects(place.objects, fail_at, after_effect=after_effect)
        journal = ObjectJournal(faulty, f"{place.directory}/{JOURNAL}")
        archive = Archive(faulty, journal, place.directory, "driver", retry_pause_s=0)
        assert archive.reserve_id(1, "two") == 2
        two = store_objects(place.objects, archive, 1, 2)
        archive.write_metadata(two)
        archive.publish(two)
        assert archive.read_snapshot(two.location) == two
        assert [record.checkpoint_id for record in archive.read_journal().canonical] == [1, 2]
        return len(faulty.calls)

    calls = checkpoint(None)
    assert calls >= 15
    for fail_at in range(1, calls + 1):
        checkpoint(fail_at)


@pytest.mark.slow
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_crash_at_any_step_of_a_recovery_is_recovered_from(places: Iterator[Place], after_effect: bool) -> None:
    def recover(fail_at: int | None) -> int:
        place = next(places)
        first_checkpoint(place)
        archive = place.archive("driver")
        archive.write_metadata(store_objects(place.objects, archive, 1, archive.reserve_id(1, "two"), shared=["lost"]))
        faulty = FaultyObjects(place.objects, fail_at, after_effect=after_effect, crash=True)
        archive = place.archive("unlucky driver", faulty)
        try:
            archive.recover(archive.claim()[0].attempt)
        except StorageError:
            assert fail_at is not None
        assert check_recovery(place, published={1}) == {1}
        return len(faulty.calls)

    calls = recover(None)
    assert calls >= 15
    for fail_at in range(1, calls + 1):
        recover(fail_at)


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(ExternalizedRetention))
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_crash_at_any_step_of_the_end_can_be_made_up_for(
    places: Iterator[Place], policy: ExternalizedRetention, after_effect: bool
) -> None:
    def end(fail_at: int | None) -> int:
        place = next(places)
        retained = first_checkpoint(place)
        faulty = FaultyObjects(place.objects, fail_at, after_effect=after_effect, crash=True)
        archive = place.archive("driver", faulty)
        store_objects(place.objects, archive, 1, 2, shared=["lost"])
        try:
            archive.finish(1, JobStatus.CANCELED, policy, retained, limit=1)
        except StorageError:
            assert fail_at is not None
        late = place.archive("late driver")
        late.finish(0, JobStatus.CANCELED, policy, limit=1)
        assert late.claim()[0].ended is JobStatus.CANCELED
        kept = [late.read_snapshot(late.location(1))] if keeps(policy, JobStatus.CANCELED) else []
        assert [damage(place.objects, snapshot) for snapshot in kept] == [[] for _ in kept]
        assert leftovers(place.objects, place.directory, kept) == []
        return len(faulty.calls)

    calls = end(None)
    assert calls >= 15
    for fail_at in range(1, calls + 1):
        end(fail_at)


class DataFirst(Archive):
    """Deletes what a record points to before the record."""

    def delete_snapshot(self, snapshot: Snapshot, retained: RetainedSnapshots) -> None:
        self._delete_data(snapshot)
        super().delete_snapshot(snapshot, retained)


class NoSweep(Archive):
    """Leaves everything that a crash has left."""

    def _sweep(self, *_: object, **__: object) -> tuple[str, ...]:
        return ()


def published_too_early(
    archive: Archive, objects: ObjectStore, retained: RetainedSnapshots, needed: StoredObject
) -> None:
    two = prepared(archive, objects, needed)
    archive.publish(two)
    archive.write_metadata(two)
    clean(archive, retained, two)


def shared_deleted_too_early(
    archive: Archive, objects: ObjectStore, retained: RetainedSnapshots, needed: StoredObject
) -> None:
    two = prepared(archive, objects, needed)
    archive.delete_shared(complete(retained, two)[1], retained)
    archive.write_metadata(two)
    archive.publish(two)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "kind", "complaint"),
    [
        (second_checkpoint, DataFirst, "the journal"),
        (published_too_early, Archive, "can't recover"),
        (shared_deleted_too_early, Archive, "superfluous"),
    ],
)
def test_a_wrong_order_is_caught_at_some_step(second: Second, kind: type[Archive], complaint: str) -> None:
    """Or the test above would have no teeth."""
    calls, _ = run(new_place(), second, None, after_effect=False, crash=True, kind=kind)
    complaints = []
    for fail_at in range(1, len(calls) + 1):
        place = new_place()
        run(place, second, fail_at, after_effect=False, crash=True, kind=kind)
        try:
            check_recovery(place, published={1, 2})
        except (AssertionError, DamagedError) as error:
            complaints.append(str(error))
    assert complaints
    assert all(complaint in text for text in complaints)


def test_waste_is_noticed_if_nobody_sweeps(places: Iterator[Place], monkeypatch: pytest.MonkeyPatch) -> None:
    place = next(places)
    calls, _ = run(place, second_checkpoint, None, after_effect=False, crash=True)
    changing = [number for number, (method, _) in enumerate(calls, start=1) if method in CHANGING_METHODS]
    place = next(places)
    run(place, second_checkpoint, changing[2], after_effect=True, crash=True)
    monkeypatch.setattr(Archive, "_sweep", NoSweep._sweep)
    with pytest.raises(AssertionError, match="a1-op-0"):
        check_recovery(place, published={1, 2})

"""The life of a job's checkpoints, as one suite over every object store and journal."""

from __future__ import annotations

import logging
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from snapline.devtools.kit.faulty_objects import FaultyObjects
from snapline.devtools.kit.stored_snapshots import JOURNAL, damage, leftovers, store_objects
from snapline.devtools.servers.zookeeper_server import ZooKeeperServer
from snapline.errors import DamagedError, EngineError, FencedError, RestoreError
from snapline.protocol.journal import Journal
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots, Retirement
from snapline.protocol.retention.retention_rules import keeps
from snapline.protocol.snapshot import Snapshot, StoredObject
from snapline.storage.archive import Archive
from snapline.storage.cleaner import Cleaner
from snapline.storage.journals.journal_client import PRUNE_ABOVE
from snapline.storage.journals.journal_store import JournalStore, MemoryJournal, ObjectJournal
from snapline.storage.journals.zookeeper_journal import ZooKeeperJournal
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectStore
from snapline.types import ClaimMode, ExternalizedRetention, JobStatus, SnapshotKind

WAIT_S = 30.0
PAUSE_S = 0.01


class Job:
    """The storage of one job; each driver has its own connections."""

    def __init__(self, root: str, objects: ObjectStore, journal: Callable[[str], JournalStore]) -> None:
        self.root = root
        self.directory = f"{root}/job"
        self.objects = objects
        self._journal = journal

    @property
    def is_durable(self) -> bool:
        """Whether unpublished checkpoints can be distinguished from those of an earlier run."""
        return self._journal(self.directory).outlives_driver

    def driver(self, token: str, directory: str | None = None) -> Driver:
        place = directory or self.directory
        return Driver(Archive(self.objects, self._journal(place), place, token, retry_pause_s=PAUSE_S), self.objects)


class Driver:
    """A driver that uses its archive step by step, as its coordinator would."""

    def __init__(self, archive: Archive, objects: ObjectStore) -> None:
        self.archive = archive
        self.objects = objects
        self.attempt = 0
        self.retained = RetainedSnapshots(1)
        self.warnings: tuple[str, ...] = ()

    def start(self, retain: int = 1, given: Snapshot | None = None, mode: ClaimMode = ClaimMode.NO_CLAIM) -> Driver:
        journal, is_ours = self.archive.claim(self.attempt)
        assert is_ours
        self.attempt = journal.attempt
        recovered = self.archive.recover(self.attempt)
        self.warnings = recovered.warnings
        self.retained = RetainedSnapshots.restored(retain, recovered.snapshots, given, mode)
        return self

    def start_without_recovery(self) -> None:
        assert self.archive.claim(self.attempt)[1]

    @property
    def ids(self) -> list[int]:
        return [snapshot.id for snapshot in self.retained.snapshots]

    def prepare(self, *, after: int = 0, shared: Iterable[str] = (), reused: Iterable[StoredObject] = ()) -> Snapshot:
        """A checkpoint whose data and metadata are stored, but not published."""
        checkpoint_id = self.archive.reserve_id(self.attempt, uuid.uuid4().hex, after)
        snapshot = store_objects(self.objects, self.archive, self.attempt, checkpoint_id, shared=shared, reused=reused)
        assert self.archive.write_metadata(snapshot) == self.objects.size_bytes(snapshot.metadata_path)
        return snapshot

    def complete(
        self, *, after: int = 0, shared: Iterable[str] = (), reused: Iterable[StoredObject] = ()
    ) -> tuple[Snapshot, Retirement]:
        snapshot = self.prepare(after=after, shared=shared, reused=reused)
        for operator in snapshot.operators.values():
            assert self.retained.register_all(operator.subtasks.values(), snapshot.id) is None
        self.archive.publish(snapshot)
        retirement = self.retained.add(snapshot)
        for old in retirement.delete:
            self.archive.delete_snapshot(old, self.retained)
        self.archive.delete_shared(retirement.shared, self.retained)
        return snapshot, retirement

    def savepoint(self, kind: SnapshotKind = SnapshotKind.SAVEPOINT) -> Snapshot:
        target = f"{self.archive.directory.rpartition('/')[0]}/savepoints"
        location = self.archive.savepoint_location(target, "0123456789")
        checkpoint_id = self.archive.reserve_id(self.attempt, uuid.uuid4().hex)
        snapshot = store_objects(self.objects, self.archive, self.attempt, checkpoint_id, kind=kind, location=location)
        self.archive.write_metadata(snapshot)
        self.archive.publish(snapshot)
        return snapshot

    def finish(self, status: JobStatus, policy: ExternalizedRetention, claimed: Snapshot | None = None) -> None:
        self.archive.finish(self.attempt, status, policy, self.retained, claimed, limit=self.retained.limit)

    def leftovers(self, *snapshots: Snapshot) -> list[str]:
        """What else is in the job's directory; the snapshots themselves must be intact."""
        assert [damage(self.objects, snapshot) for snapshot in snapshots] == [[] for _ in snapshots]
        return leftovers(self.objects, self.archive.directory, snapshots)


STORES = ["memory", "files", *(pytest.param(name, marks=pytest.mark.slow) for name in ("s3", "zookeeper"))]


@pytest.fixture(params=STORES)
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Job]:
    with ExitStack() as stack:
        if request.param == "memory":
            journals: dict[str, MemoryJournal] = {}
            yield Job("memory://store", MemoryObjects(), lambda place: journals.setdefault(place, MemoryJournal()))
        elif request.param == "zookeeper":
            server: ZooKeeperServer = request.getfixturevalue("zookeeper")
            base = f"/snapline/{uuid.uuid4().hex}"

            def connect(place: str) -> JournalStore:
                journal = ZooKeeperJournal(server.hosts, f"{base}/{place.rpartition('/')[2]}")
                stack.callback(journal.close)
                return journal

            yield Job(str(tmp_path), FileObjects(), connect)
        else:
            options = request.getfixturevalue("s3_options") if request.param == "s3" else {}
            root = request.getfixturevalue("s3_root") if request.param == "s3" else str(tmp_path)
            objects = FileObjects(options={"s3": options})
            yield Job(root, objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))


@pytest.fixture
def small() -> Job:
    """For tests that do not depend on the store."""
    objects = MemoryObjects()
    return Job("memory://store", objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))


# The life of a job's checkpoints.


def test_a_job_lives_through_checkpoints_and_restarts(job: Job) -> None:
    first = job.driver("first").start(retain=2)
    assert first.ids == []
    one, _ = first.complete(shared=["a", "b"])
    a, b = (one.shared()[key] for key in ("a1-op-0-a", "a1-op-0-b"))
    two, _ = first.complete(shared=["c"], reused=[b])
    assert first.leftovers(one, two) == []
    three, retirement = first.complete(reused=[two.shared()["a1-op-0-c"]])
    assert [entry.id for entry in retirement.delete] == [one.id]
    assert retirement.shared == (a,)
    assert first.leftovers(two, three) == []
    first.prepare(shared=["lost"])
    assert first.leftovers(two, three) != []

    second = job.driver("second").start(retain=2)
    assert (second.attempt, second.ids, second.warnings) == (2, [two.id, three.id], ())
    if job.is_durable:
        assert second.leftovers(two, three) == []
    with pytest.raises(FencedError):
        first.archive.publish(first.prepare())
    four, retirement = second.complete(after=100, shared=["d"])
    assert four.id > 100
    assert [entry.id for entry in retirement.delete] == [two.id]
    assert job.driver("reader").archive.read_snapshot(f"{four.location}/_metadata") == four
    assert job.driver("reader").archive.read_snapshot(f"{four.location}/") == four


def test_leftovers_of_older_attempts_are_swept_and_nothing_else(job: Job) -> None:
    first = job.driver("first").start()
    one, _ = first.complete(shared=["a"])
    objects, archive = job.objects, first.archive
    lost = store_objects(objects, archive, 1, 7, shared=["lost"])
    others = [
        f"{archive.location(7)}/without-attempt",
        f"{archive.shared_directory}/without-attempt",
        f"{archive.shared_directory}/a2-of-this-attempt",
        f"{archive.location(9)}/a2-of-this-attempt",
        f"{archive.directory}/other/a1-log",
        f"{archive.directory}/savepoint-012345-0123456789ab/a1-state",
        f"{archive.directory}/a1-notes",
        f"{job.root}/other-job/chk-1/a1-state",
    ]
    for path in others:
        objects.write(path, b"x")
    savepoint = first.savepoint()
    second = job.driver("second").start()
    assert second.ids == [one.id]
    assert sorted(second.leftovers(one)) == sorted(others[:-1])
    assert objects.size_bytes(others[-1]) == 1
    assert damage(objects, savepoint) == []
    assert {item.path for item in lost.objects() if not item.is_inline}.isdisjoint(others)


def test_a_savepoint_the_job_was_to_stop_with_is_recovered_from_and_never_deleted(job: Job) -> None:
    first = job.driver("first").start()
    one, _ = first.complete()
    stop = first.savepoint(SnapshotKind.SYNC_SAVEPOINT)
    plain = first.savepoint()
    second = job.driver("second").start()
    assert second.ids == [one.id, stop.id]
    three, retirement = second.complete()
    assert [entry.id for entry in retirement.delete] == [one.id]
    assert second.leftovers(three) == []
    second.finish(JobStatus.FINISHED, ExternalizedRetention.NO_EXTERNALIZED)
    assert second.leftovers() == []
    assert damage(job.objects, stop) == damage(job.objects, plain) == []


@pytest.mark.parametrize("job", ["memory", "files"], indirect=True)
@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED])
@pytest.mark.parametrize("policy", list(ExternalizedRetention))
def test_checkpoints_outlive_the_job_as_the_policy_says(
    job: Job, policy: ExternalizedRetention, status: JobStatus
) -> None:
    driver = job.driver("driver").start(retain=2)
    driver.complete(shared=["a"])
    two, _ = driver.complete(shared=["b"])
    three, _ = driver.complete(reused=two.shared().values())
    savepoint = driver.savepoint()
    driver.prepare(shared=["lost"])
    driver.finish(status, policy)
    journal = job.driver("late").archive.read_journal()
    assert damage(job.objects, savepoint) == []
    if status is JobStatus.SUSPENDED:
        assert journal.ended is None
        assert job.driver("late").start(retain=2).ids == [two.id, three.id]
        return
    assert journal.ended is status
    kept = [two, three] if keeps(policy, status) else []
    own = [record.checkpoint_id for record in journal.recovery_points]
    assert own == [snapshot.id for snapshot in kept]
    assert [job.driver("late").archive.read_snapshot(entry.location) for entry in kept] == kept
    if job.is_durable:
        assert driver.leftovers(*kept) == []
    late, is_ours = job.driver("late").archive.claim()
    if status is not JobStatus.FAILED:
        assert (late.ended, is_ours) == (status, False)
        return
    assert is_ours, "a job that failed goes on"
    again = job.driver("again").start(retain=2)
    assert again.ids == [snapshot.id for snapshot in kept]
    four, _ = again.complete(reused=two.shared().values() if kept else ())
    assert four.id > three.id
    if job.is_durable:
        assert again.leftovers(*kept[1:], four) == []


@pytest.mark.parametrize("mode", list(ClaimMode))
def test_a_snapshot_of_another_job_is_deleted_only_if_it_was_claimed(job: Job, mode: ClaimMode) -> None:
    old = job.driver("old", f"{job.root}/old").start()
    given, _ = old.complete(shared=["a", "b"])
    old.finish(JobStatus.CANCELED, ExternalizedRetention.RETAIN_ON_CANCELLATION)

    reading = job.driver("reading").archive.read_snapshot(given.location)
    driver = job.driver("new").start(given=reading, mode=mode)
    assert driver.ids == [given.id]
    b = given.shared()["a1-op-0-b"]
    reused = [] if mode is ClaimMode.NO_CLAIM else [b]
    one, retirement = driver.complete(after=given.id, reused=reused)
    assert one.id > given.id
    is_claimed = mode is ClaimMode.CLAIM
    assert [entry.id for entry in retirement.delete] == ([given.id] if is_claimed else [])
    a_is_there = job.objects.size_bytes(given.shared()["a1-op-0-a"].path) is not None
    assert a_is_there is not is_claimed
    assert (damage(job.objects, given) == []) is not is_claimed
    assert driver.leftovers(one) == []
    driver.finish(JobStatus.FINISHED, ExternalizedRetention.RETAIN_ON_CANCELLATION, reading if is_claimed else None)
    assert leftovers(job.objects, f"{job.root}/old", [] if is_claimed else [given]) == []


def test_an_unreadable_latest_checkpoint_is_an_error_and_nothing_is_swept(job: Job) -> None:
    first = job.driver("first").start(retain=2)
    one, _ = first.complete()
    two, _ = first.complete(shared=["a"])
    data = job.objects.read(two.metadata_path)
    for harmed in (data[:-9], None):
        job.objects.delete([two.metadata_path])
        if harmed is not None:
            job.objects.write(two.metadata_path, harmed)
        archive = job.driver("second").archive
        attempt = archive.claim()[0].attempt
        with pytest.raises(DamagedError, match=f"can't recover: {two.location}.*Nothing was changed. Restore it"):
            archive.recover(attempt)
    job.objects.write(two.metadata_path, data)
    third = job.driver("third").start(retain=2)
    assert third.leftovers(one, two) == []
    assert third.ids == [one.id, two.id]


@pytest.mark.parametrize("harm", ["garbage", "gone"])
def test_an_unreadable_older_checkpoint_is_an_error_too(job: Job, harm: str) -> None:
    first = job.driver("first").start(retain=3)
    one, _ = first.complete()
    two, _ = first.complete(shared=["a"])
    three, _ = first.complete()
    data = job.objects.read(two.metadata_path)
    if harm == "garbage":
        job.objects.write(two.metadata_path, b"garbage")
    else:
        job.objects.delete([two.metadata_path])
    archive = job.driver("second").archive
    attempt = archive.claim()[0].attempt
    with pytest.raises(DamagedError, match=f"can't recover: {two.location}.*Nothing was changed. Restore it"):
        archive.recover(attempt)
    job.objects.delete([two.metadata_path])
    job.objects.write(two.metadata_path, data)
    third = job.driver("third").start(retain=3)
    assert third.ids == [one.id, two.id, three.id]
    assert third.leftovers(one, two, three) == []


def test_an_older_checkpoint_of_which_nothing_is_left_is_passed_over_with_a_warning(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    first = job.driver("first").start(retain=3)
    gone, _ = first.complete()
    two, _ = first.complete()
    job.objects.delete_tree(gone.location)
    with caplog.at_level(logging.WARNING):
        second = job.driver("second").start()
    assert second.ids == [two.id]
    assert gone.location in second.warnings[0]
    assert all(warning in caplog.messages for warning in second.warnings)
    three, _ = second.complete()
    third = job.driver("third").start()
    assert (third.ids, third.warnings) == ([three.id], ())


def test_a_checkpoint_that_the_driver_before_is_deleting_is_no_problem(small: Job) -> None:
    """That driver is fenced without knowing it yet; it deletes the record first."""
    first = small.driver("first").start()
    one, _ = first.complete()
    two = first.prepare()
    first.archive.publish(two)
    (old,) = first.retained.add(two).delete
    assert old == one

    class Meanwhile(FaultyObjects):
        def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
            if path == one.metadata_path:
                first.archive.read_journal()
                journal.delete(record for record in journal.read().recovery_points if record.checkpoint_id == one.id)
                small.objects.delete([one.metadata_path])
            return super().read(path, offset, length)

    journal = ObjectJournal(small.objects, f"{small.directory}/{JOURNAL}")
    archive = Archive(Meanwhile(small.objects), journal, small.directory, "second")
    recovered = archive.recover(archive.claim()[0].attempt)
    assert (recovered.snapshots, recovered.warnings) == ((two,), ())


@pytest.mark.parametrize("url", ["", "file://"])
def test_what_a_killed_process_was_writing_is_swept(tmp_path: Path, url: str) -> None:
    objects = FileObjects()
    job = Job(f"{url}{tmp_path}", objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))
    first = job.driver("first").start()
    one, _ = first.complete(shared=["a"])
    lost = first.archive.reserve_id(first.attempt, "lost")
    root = tmp_path / "job"
    waste = [
        f"chk-{one.id}/.tmp-a1-01",
        f"chk-{lost}/.tmp-02",
        f"chk-{lost}/a1-state/.tmp-03",
        "shared/.tmp-a1-04",
        f"{JOURNAL}/ids/.tmp-10",
    ]
    kept = [f"chk-{lost + 1}/.tmp-a2-05", "shared/.tmp-a2-06", "shared/.tmp-07", ".tmp-08", "other/.tmp-a1-09"]
    for path in (*waste, *kept):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"half of somet")
    (root / f"chk-{lost - 1}" / "empty").mkdir(parents=True)
    (root / f"chk-{lost + 2}").mkdir()
    second = job.driver("second").start()
    assert second.leftovers(one) == []
    found = [str(path.relative_to(root)) for path in root.rglob(".tmp-*")]
    assert sorted(found) == sorted(kept)
    directories = {path.name for path in root.iterdir() if path.name.startswith("chk-")}
    assert directories == {f"chk-{one.id}", f"chk-{lost + 1}", f"chk-{lost + 2}"}
    assert job.driver("third").start().ids == [one.id]


def test_rows_of_the_journal_leave_no_directory_behind(tmp_path: Path) -> None:
    objects = FileObjects()
    job = Job(str(tmp_path), objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))
    for number in range(20):
        job.driver(f"driver {number}").start().complete()
    assert len(list((tmp_path / "job" / JOURNAL / "rows").iterdir())) <= PRUNE_ABOVE


@pytest.mark.parametrize("url", ["", "file://"])
def test_a_copy_of_a_job_is_a_job_of_its_own(tmp_path: Path, url: str) -> None:
    objects = FileObjects()
    job = Job(f"{url}{tmp_path}/old place", objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))
    one, _ = job.driver("first").start().complete(shared=["a"])
    shutil.copytree(tmp_path / "old place", tmp_path / "new")
    copy = Job(f"{url}{tmp_path}/new", objects, lambda place: ObjectJournal(objects, f"{place}/{JOURNAL}"))
    second = copy.driver("second").start()
    assert [snapshot.location for snapshot in second.retained.snapshots] == [f"{copy.directory}/chk-{one.id}"]
    two, retirement = second.complete()
    assert [entry.location for entry in retirement.delete] == [f"{copy.directory}/chk-{one.id}"]
    assert second.leftovers(two) == []
    assert damage(objects, one) == []
    assert job.driver("third").start().ids == [one.id]


# Metadata.


def test_metadata_is_never_written_over_that_of_another(job: Job) -> None:
    driver = job.driver("driver").start()
    mine = store_objects(job.objects, driver.archive, 1, 5)
    driver.archive.write_metadata(mine)
    driver.archive.write_metadata(mine)
    theirs = store_objects(job.objects, driver.archive, 2, 5)
    with pytest.raises(FencedError, match="directory of its own") as caught:
        driver.archive.write_metadata(theirs)
    assert (caught.value.attempt, caught.value.current) == (2, 1)
    assert driver.archive.read_snapshot(mine.location) == mine


def test_a_path_without_a_checkpoint_says_so(job: Job) -> None:
    archive = job.driver("driver").archive
    store_objects(job.objects, archive, 1, 5)
    for path in (archive.location(5), f"{archive.location(5)}/_metadata", f"{job.root}/nowhere"):
        with pytest.raises(RestoreError, match=r"no checkpoint there: .* has no _metadata: it was never completed"):
            archive.read_snapshot(path)


# Deletion.


def test_a_checkpoint_that_came_to_nothing_is_discarded_with_its_place(job: Job) -> None:
    driver = job.driver("driver").start()
    one, _ = driver.complete(shared=["a"])
    lost = driver.prepare(reused=one.shared().values())
    job.objects.write(f"{lost.location}/a1-unknown", b"x")
    own = [item for item in lost.objects() if item.shared_key is None]
    driver.archive.discard(own, lost.location, 1)
    assert driver.leftovers(one) == []
    driver.archive.discard(own, lost.location, 1)
    driver.archive.discard(own, None, 1)


def test_what_another_attempt_has_in_the_same_place_is_not_discarded(job: Job) -> None:
    driver = job.driver("driver").start()
    theirs = store_objects(job.objects, driver.archive, 2, 5)
    driver.archive.write_metadata(theirs)
    mine = store_objects(job.objects, driver.archive, 1, 5)
    driver.archive.discard([item for item in mine.objects() if item.shared_key is None], mine.location, 1)
    assert driver.leftovers(theirs) == []


def test_a_savepoint_that_came_to_nothing_takes_only_its_own_with_it(job: Job) -> None:
    driver = job.driver("driver").start()
    location = f"{job.root}/target/savepoint-1"
    snapshot = store_objects(job.objects, driver.archive, 1, 5, kind=SnapshotKind.SAVEPOINT, location=location)
    driver.archive.write_metadata(snapshot)
    job.objects.write(f"{location}/notes-of-the-user", b"x")
    driver.archive.discard(snapshot.objects(), location, 1)
    assert [info.path for info in job.objects.list(location)] == [f"{location}/notes-of-the-user"]


def test_objects_without_a_file_are_not_looked_for(small: Job) -> None:
    calls = FaultyObjects(small.objects)
    driver = Driver(Archive(calls, MemoryJournal(), small.directory, "driver"), calls).start()
    location = f"{small.root}/target/savepoint-1"
    snapshot = store_objects(calls, driver.archive, 1, 5, kind=SnapshotKind.SAVEPOINT, location=location)
    assert any(item.is_inline for item in snapshot.objects())
    driver.archive.discard(snapshot.objects(), location, 1)
    driver.archive.delete_shared(snapshot.objects())
    deleted = [path for method, path in calls.calls if method == "delete"]
    (own,) = {item.path for item in snapshot.objects() if not item.is_inline}
    assert set(deleted) == {own, snapshot.metadata_path}


def test_a_file_stays_while_another_slice_of_it_is_used(small: Job) -> None:
    driver = small.driver("driver").start()
    path = f"{driver.archive.shared_directory}/a1-slices"
    small.objects.write(path, b"0123456789")
    used, unused = StoredObject(path, 5, shared_key="used"), StoredObject(path, 5, shared_key="unused", offset=5)
    driver.complete(reused=[])
    one = driver.prepare(reused=[used])
    driver.retained.add(one)
    driver.archive.delete_shared([unused], driver.retained)
    assert small.objects.size_bytes(path) == 10
    driver.archive.delete_shared([used, unused])
    assert small.objects.size_bytes(path) is None


def test_a_checkpoint_the_job_may_recover_from_is_never_deleted(small: Job) -> None:
    driver = small.driver("driver").start()
    one, _ = driver.complete()
    with pytest.raises(EngineError, match="may still recover from it"):
        driver.archive.delete_snapshot(one, driver.retained)
    assert driver.leftovers(one) == []


def test_a_slow_driver_leaves_alone_what_a_newer_one_has_published(small: Job) -> None:
    slow = small.driver("slow").start()
    one, _ = slow.complete()
    two = slow.prepare()
    slow.archive.publish(two)
    (old,) = slow.retained.add(two).delete
    quick = small.driver("quick").start(retain=3)
    three, _ = quick.complete()
    four, _ = quick.complete()
    slow.archive.delete_snapshot(old, slow.retained)
    assert old == one
    journal = quick.archive.read_journal()
    assert [record.checkpoint_id for record in journal.canonical] == [two.id, three.id, four.id]
    assert quick.leftovers(two, three, four) == []


def test_a_directory_spelled_in_another_way_is_not_swept(tmp_path: Path) -> None:
    objects = FileObjects()
    journal = ObjectJournal(objects, f"{tmp_path}/job/{JOURNAL}")
    first = Driver(Archive(objects, journal, f"file://{tmp_path}/job", "first"), objects).start()
    one, _ = first.complete(shared=["a"])
    second = Driver(Archive(objects, journal, f"{tmp_path}/job", "second"), objects).start()
    assert second.ids == [one.id]
    (warning,) = second.warnings
    assert "nothing was swept" in warning
    assert damage(objects, one) == []


def test_a_journal_that_began_with_this_driver_does_not_cost_an_earlier_run_its_checkpoints() -> None:
    objects = MemoryObjects()
    job = Job("memory://store", objects, lambda _: MemoryJournal())
    earlier, _ = job.driver("earlier").start().complete(shared=["a"])
    later = job.driver("later").start(given=earlier)
    two, _ = later.complete(after=earlier.id)
    later.start(given=earlier)
    assert later.attempt == 2
    assert later.leftovers(earlier, two) == []


def test_in_a_directory_that_other_jobs_use_only_what_is_the_jobs_own_is_deleted() -> None:
    objects = MemoryObjects()

    def driver(token: str, journal: JournalStore) -> Driver:
        return Driver(Archive(objects, journal, "memory://store", token, exclusive=False), objects)

    journal = ObjectJournal(objects, "memory://journal")
    first = driver("first", journal).start()
    one, _ = first.complete()
    beside = f"{one.location}/a1-of-another-job"
    objects.write(beside, b"x")
    second = driver("second", journal).start()
    assert second.leftovers(one) == [beside]
    two, _ = second.complete()
    assert second.leftovers(two) == [beside]
    second.finish(JobStatus.FINISHED, ExternalizedRetention.NO_EXTERNALIZED)
    assert second.leftovers() == [beside]


def test_the_end_of_a_job_can_be_tidied_up_by_whoever_finds_it(small: Job) -> None:
    driver = small.driver("driver").start()
    driver.complete(shared=["a"])
    driver.archive.close(1, JobStatus.FINISHED)
    late = small.driver("late")
    late.archive.finish(0, JobStatus.FINISHED, ExternalizedRetention.RETAIN_ON_CANCELLATION, limit=1)
    assert late.leftovers() == []
    with pytest.raises(FencedError):
        late.archive.finish(0, JobStatus.FAILED, ExternalizedRetention.RETAIN_ON_CANCELLATION, limit=1)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_whoever_tidies_up_keeps_no_more_checkpoints_than_the_job_retains(small: Job, limit: int) -> None:
    """The driver that recorded the end may have had no time to delete what the newest checkpoint replaced."""
    driver = small.driver("driver").start(retain=limit)
    published = [driver.prepare(shared=[name]) for name in "abc"]
    for snapshot in published:
        driver.archive.publish(snapshot)
    driver.archive.close(1, JobStatus.CANCELED)
    late = small.driver("late")
    for _ in range(2):
        late.archive.finish(0, JobStatus.CANCELED, ExternalizedRetention.RETAIN_ON_CANCELLATION, limit=limit)
        assert late.leftovers(*published[-limit:]) == []
        ids = [record.checkpoint_id for record in late.archive.read_journal().recovery_points]
        assert ids == [snapshot.id for snapshot in published[-limit:]]


def test_a_driver_that_tidies_up_late_leaves_a_job_alone_that_goes_on(small: Job) -> None:
    """Between the record of the failure and the sweep another driver may take over."""
    first = small.driver("first").start()
    first.complete(shared=["a"])
    lost = first.prepare()
    second = small.driver("second")
    close, started = first.archive.close, list[Snapshot]()

    def closed(attempt: int, status: JobStatus) -> Journal:
        journal = close(attempt, status)
        second.start()
        started.append(second.prepare())
        return journal

    first.archive.close = closed  # type: ignore[method-assign]
    first.finish(JobStatus.FAILED, ExternalizedRetention.NO_EXTERNALIZED)
    (prepared,) = started
    assert second.ids == [1]
    assert damage(small.objects, prepared) == []
    assert small.objects.size_bytes(lost.metadata_path) is None, "the recovery has swept it"
    second.archive.publish(prepared)
    assert small.driver("third").start().ids == [1, prepared.id]


def test_a_checkpoint_is_whole_if_all_its_files_are(small: Job) -> None:
    driver = small.driver("driver").start()
    one, _ = driver.complete(shared=["a"])
    driver.archive.check_whole(one, driver.attempt)
    stored = [item for item in one.objects() if not item.is_inline]
    for item in stored:
        data = small.objects.read(item.path)
        small.objects.write(item.path, data[:-1])
        with pytest.raises(DamagedError, match=f"can't recover: {item.path} is cut off, and {one.location} needs it"):
            driver.archive.check_whole(one, driver.attempt)
        small.objects.delete([item.path])
        with pytest.raises(DamagedError, match=f"can't recover: {item.path} is missing, and {one.location} needs it"):
            driver.archive.check_whole(one, driver.attempt)
        small.objects.write(item.path, data)
    small.objects.delete([item.path for item in stored])
    with pytest.raises(DamagedError, match="more files"):
        driver.archive.check_whole(one, driver.attempt)
    small.driver("newer").start_without_recovery()
    with pytest.raises(FencedError):
        driver.archive.check_whole(one, driver.attempt)


def test_nothing_is_swept_beside_a_checkpoint_whose_metadata_is_damaged(small: Job) -> None:
    """Nobody knows which shared files it refers to."""
    driver = small.driver("driver").start()
    one, _ = driver.complete(shared=["a"])
    data = small.objects.read(one.metadata_path)
    small.objects.write(one.metadata_path, data[:-9])
    driver.finish(JobStatus.FAILED, ExternalizedRetention.RETAIN_ON_CANCELLATION)
    small.objects.write(one.metadata_path, data)
    assert small.driver("again").start().leftovers(one) == []


def test_what_a_claimed_checkpoint_shared_stays_though_its_old_job_is_tidied_up_again(small: Job) -> None:
    old = small.driver("old", f"{small.root}/old").start()
    given, _ = old.complete(shared=["a"])
    policy = ExternalizedRetention.RETAIN_ON_CANCELLATION
    old.finish(JobStatus.CANCELED, policy)
    new = small.driver("new").start(given=given, mode=ClaimMode.CLAIM)
    two, retirement = new.complete(after=given.id, reused=given.shared().values())
    assert [entry.id for entry in retirement.delete] == [given.id]
    small.driver("late", f"{small.root}/old").archive.finish(0, JobStatus.CANCELED, policy, limit=1)
    assert damage(small.objects, two) == []


def test_what_a_claimed_checkpoint_shared_stays_for_the_job_that_has_claimed_its_successor(small: Job) -> None:
    """A driver may be so slow between the record of the end and the deletions that the next job is at work by then."""
    policy = ExternalizedRetention.RETAIN_ON_CANCELLATION
    old = small.driver("old", f"{small.root}/old").start()
    given, _ = old.complete(shared=["a"])
    old.finish(JobStatus.CANCELED, policy)
    slow = small.driver("slow").start(given=given, mode=ClaimMode.CLAIM)
    one, _ = slow.complete(after=given.id, reused=given.shared().values())
    slow.archive.close(slow.attempt, JobStatus.CANCELED)
    small.driver("late").archive.finish(0, JobStatus.CANCELED, policy, limit=1)
    new = small.driver("new", f"{small.root}/new").start(given=one, mode=ClaimMode.CLAIM)
    two, retirement = new.complete(after=one.id, reused=one.shared().values())
    assert [entry.id for entry in retirement.delete] == [one.id]
    slow.finish(JobStatus.CANCELED, policy, given)
    assert damage(small.objects, two) == []


def test_what_a_claimed_checkpoint_shared_goes_with_the_job_that_claimed_it(small: Job) -> None:
    """Also if the driver that ends the job knows the claimed checkpoint only from its own."""
    old = small.driver("old", f"{small.root}/old").start()
    given, _ = old.complete(shared=["a"])
    old.finish(JobStatus.CANCELED, ExternalizedRetention.RETAIN_ON_CANCELLATION)
    new = small.driver("new").start(given=given, mode=ClaimMode.CLAIM)
    new.complete(after=given.id, reused=given.shared().values())
    assert leftovers(small.objects, f"{small.root}/old", []) == [given.shared()["a1-op-0-a"].path]
    last = small.driver("last").start()
    last.finish(JobStatus.FINISHED, ExternalizedRetention.NO_EXTERNALIZED)
    assert last.leftovers() == []
    assert leftovers(small.objects, f"{small.root}/old", []) == []


@pytest.mark.parametrize("is_subsumed", [False, True])
def test_a_claimed_checkpoint_outlives_the_job_only_while_it_is_retained(small: Job, is_subsumed: bool) -> None:
    policy = ExternalizedRetention.RETAIN_ON_CANCELLATION
    old = small.driver("old", f"{small.root}/old").start()
    given, _ = old.complete(shared=["a"])
    old.finish(JobStatus.CANCELED, policy)
    new = small.driver("new").start(given=given, mode=ClaimMode.CLAIM)
    kept = []
    if is_subsumed:
        one = new.prepare(after=given.id)
        new.archive.publish(one)
        assert new.retained.add(one).delete == (given,)
        kept.append(one)
    new.finish(JobStatus.CANCELED, policy, given)
    assert new.leftovers(*kept) == []
    assert (damage(small.objects, given) == []) is not is_subsumed


def test_a_cleaner_deletes_in_the_background(job: Job) -> None:
    driver = job.driver("driver").start()
    one, _ = driver.complete()
    two = driver.prepare()
    driver.archive.publish(two)
    (old,) = driver.retained.add(two).delete
    errors: list[Exception | None] = []
    cleaner = Cleaner(driver.archive, ThreadPoolExecutor(1))
    cleaner.delete_snapshot(old, driver.retained, errors.append)
    cleaner.close()
    assert errors == [None]
    assert old == one
    assert driver.leftovers(two) == []

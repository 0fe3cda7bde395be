"""One suite for every journal store: a record is created once, and the rules of the journal hold on top."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from snapline.devtools.servers.zookeeper_server import ZooKeeperServer
from snapline.errors import DamagedError, FencedError, StorageError, StorageLostError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.storage.journals.journal_client import PRUNE_ABOVE, JournalClient, PublicationFencedError
from snapline.storage.journals.journal_store import (
    JournalStore,
    MemoryJournal,
    ObjectJournal,
    encode_record,
)
from snapline.storage.journals.zookeeper_journal import ZooKeeperJournal
from snapline.storage.objects.file_objects import FileObjects
from snapline.types import JobStatus, SnapshotKind

DRIVERS = 4
WAIT_S = 60.0
TIMEOUT_MS = 10_000
SHORT_TIMEOUT_MS = 2_000
PAUSE_S = 0.01

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """One journal: `open` connects another driver, `overwrite` damages a record.

    A journal in memory encodes nothing, so nothing can be damaged.
    """

    open: Callable[[], JournalStore]
    overwrite: Callable[[str, bytes], None] | None = None


STORES = ["memory", "files", *(pytest.param(name, marks=pytest.mark.slow) for name in ("s3", "zookeeper"))]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:

        def opened(journal: JournalStore) -> JournalStore:
            stack.callback(journal.close)
            return journal

        if request.param == "memory":
            memory = MemoryJournal()
            yield Place(lambda: memory)
        elif request.param == "zookeeper":
            server: ZooKeeperServer = request.getfixturevalue("zookeeper")
            path = f"/snapline/{uuid.uuid4().hex}"
            yield Place(
                lambda: opened(ZooKeeperJournal(server.hosts, path, timeout_ms=TIMEOUT_MS)),
                lambda name, data: set_node(server, f"{path}/{name}", data),
            )
        else:
            options = request.getfixturevalue("s3_options") if request.param == "s3" else {}
            root = request.getfixturevalue("s3_root") if request.param == "s3" else str(tmp_path)
            objects = FileObjects(options={"s3": options})
            yield Place(
                lambda: ObjectJournal(FileObjects(options={"s3": options}), f"{root}/journal"),
                lambda name, data: objects.write(f"{root}/journal/{name}", data),
            )


def set_node(server: ZooKeeperServer, path: str, data: bytes) -> None:
    from kazoo.client import KazooClient

    client = KazooClient(server.hosts)
    client.start()
    try:
        client.ensure_path(path)
        client.set(path, data)
    finally:
        client.stop()
        client.close()


def driver(journal: JournalStore, name: str) -> JournalClient:
    return JournalClient(journal, name, retry_pause_s=PAUSE_S)


def snapshot(checkpoint_id: int, attempt: int, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    return Snapshot(checkpoint_id, kind, attempt, 0, f"/job/chk-{checkpoint_id}", {})


def in_parallel(operations: Sequence[Callable[[], T]]) -> list[T]:
    """Run all at once."""
    barrier = threading.Barrier(len(operations))

    def run(operation: Callable[[], T]) -> T:
        barrier.wait(WAIT_S)
        return operation()

    with ThreadPoolExecutor(len(operations)) as pool:
        return list(pool.map(run, operations))


CLAIM = Record(RecordKind.CLAIM, 1, "me")
ONE_OF_EACH = (
    Record(RecordKind.CLAIM, 1, "me"),
    Record(RecordKind.END, 2, "me", status=JobStatus.CANCELED),
    Record(RecordKind.ID, 1, "me:request", checkpoint_id=7),
    Record(RecordKind.CHECKPOINT, 1, "me", 0, 7, "s3://bucket/ä ö/chk-7"),
    Record(RecordKind.SAVEPOINT, 1, "me", 1, 8, "/savepoints/savepoint-123456-0123456789ab"),
    Record(RecordKind.STOP, 1, "me", 2, 9, "/savepoints/savepoint-123456-ba9876543210"),
    Record(RecordKind.SEAL, 1, "me", 3),
)


# Every store.


def test_a_journal_begins_empty(place: Place) -> None:
    assert place.open().read().records == ()


def test_records_are_read_as_they_were_created_also_by_others(place: Place) -> None:
    journal = place.open()
    assert all(journal.create(record) for record in ONE_OF_EACH)
    expected = Journal(ONE_OF_EACH).records
    assert journal.read().records == expected
    journal.close()
    assert place.open().read().records == expected


def test_a_record_is_created_only_once(place: Place) -> None:
    journal, other = place.open(), place.open()
    assert journal.create(CLAIM)
    assert not journal.create(CLAIM)
    assert not other.create(Record(RecordKind.CLAIM, 1, "somebody else"))
    assert other.read().records == (CLAIM,)


def test_of_many_that_create_the_same_record_at_once_one_succeeds(place: Place) -> None:
    records = [Record(RecordKind.CLAIM, 1, f"driver-{index}") for index in range(DRIVERS)]
    stores = [place.open() for _ in records]
    created = in_parallel([partial(store.create, record) for store, record in zip(stores, records, strict=True)])
    assert sorted(created) == [False] * (DRIVERS - 1) + [True]
    assert place.open().read().records == (records[created.index(True)],)


def test_deleting_what_is_not_there_is_fine(place: Place) -> None:
    journal = place.open()
    journal.delete([CLAIM])
    for record in ONE_OF_EACH:
        journal.create(record)
    journal.delete(ONE_OF_EACH[1:])
    journal.delete(ONE_OF_EACH[1:])
    assert journal.read().records == (ONE_OF_EACH[0],)
    assert all(journal.create(record) for record in ONE_OF_EACH[1:])


def test_of_drivers_that_race_for_a_job_one_owns_it(place: Place) -> None:
    drivers = [driver(place.open(), f"driver-{index}") for index in range(DRIVERS)]
    claims = in_parallel([client.claim for client in drivers])
    assert all(is_ours for _, is_ours in claims)
    attempts = [journal.attempt for journal, _ in claims]
    assert len(set(attempts)) == DRIVERS
    journal = place.open().read()
    owners = [client.token for client in drivers if journal.owns(journal.attempt, client.token)]
    assert owners == [drivers[attempts.index(max(attempts))].token]
    assert journal.attempt == max(attempts)


def test_a_driver_that_was_taken_over_from_is_fenced(place: Place) -> None:
    old, new = driver(place.open(), "old"), driver(place.open(), "new")
    old.claim()
    old.publish(snapshot(1, attempt=1))
    journal, is_ours = new.claim()
    assert (journal.attempt, is_ours) == (2, True)
    with pytest.raises(PublicationFencedError, match="newest attempt is 2") as caught:
        old.publish(snapshot(2, attempt=1))
    assert (caught.value.attempt, caught.value.current) == (1, 2)
    assert (caught.value.possibly_inconsistent, caught.value.is_own) == (False, False)
    new.publish(snapshot(3, attempt=2))
    assert [record.checkpoint_id for record in place.open().read().canonical] == [1, 3]
    journal, is_ours = old.claim(own_attempt=1)
    assert (journal.attempt, is_ours) == (2, False)
    with pytest.raises(FencedError):
        old.close(1, JobStatus.FAILED)


def test_a_new_attempt_of_the_same_driver_fences_its_old_one(place: Place) -> None:
    client = driver(place.open(), "driver")
    assert client.claim()[0].attempt == 1
    assert client.claim(own_attempt=1)[0].attempt == 2
    with pytest.raises(PublicationFencedError) as caught:
        client.publish(snapshot(1, attempt=1))
    assert caught.value.is_own


def test_ids_are_never_shared(place: Place) -> None:
    drivers = [driver(place.open(), f"driver-{index}") for index in range(DRIVERS)]
    attempts = [client.claim()[0].attempt for client in drivers]

    def reserve(client: JournalClient, attempt: int) -> list[int]:
        return [client.reserve_id(attempt, f"request-{number}", after=10) for number in range(2)]

    reserved = in_parallel([partial(reserve, *pair) for pair in zip(drivers, attempts, strict=True)])
    ids = [checkpoint_id for own in reserved for checkpoint_id in own]
    assert len(set(ids)) == 2 * DRIVERS
    assert min(ids) > 10
    assert all(own == sorted(own) for own in reserved)


def test_an_id_is_reserved_once_for_one_request(place: Place) -> None:
    client = driver(place.open(), "driver")
    client.claim()
    first = client.reserve_id(1, "request", after=0)
    assert client.reserve_id(1, "request", after=0) == first
    assert client.reserve_id(1, "another", after=0) == first + 1


def test_a_job_that_has_ended_is_never_claimed_again(place: Place) -> None:
    client, late = driver(place.open(), "driver"), driver(place.open(), "late")
    client.claim()
    client.publish(snapshot(1, attempt=1, kind=SnapshotKind.SYNC_SAVEPOINT))
    assert client.close(1, JobStatus.FINISHED).ended is JobStatus.FINISHED
    assert client.close(1, JobStatus.FAILED).ended is JobStatus.FINISHED
    journal, is_ours = late.claim()
    assert (journal.ended, is_ours) == (JobStatus.FINISHED, False)
    assert journal.latest is not None
    assert journal.latest.kind is RecordKind.STOP
    with pytest.raises(PublicationFencedError):
        client.publish(snapshot(2, attempt=1))


@pytest.mark.parametrize("has_successor", [False, True])
def test_a_journal_that_was_deleted_under_its_driver_is_never_made_again(place: Place, has_successor: bool) -> None:
    client = driver(place.open(), "driver")
    attempt = client.claim()[0].attempt
    client.publish(snapshot(1, attempt=attempt))
    place.open().delete(client.read_journal().records)
    if has_successor:
        driver(place.open(), "another").claim()
    before = place.open().read().records
    calls: list[Callable[[], object]] = [
        lambda: client.reserve_id(attempt, "request"),
        lambda: client.publish(snapshot(2, attempt=attempt)),
        lambda: client.claim(own_attempt=attempt),
        lambda: client.close(attempt, JobStatus.CANCELED),
    ]
    for call in calls:
        with pytest.raises(
            StorageLostError, match=r"journal in its store was deleted while it ran.*Bring the directory back"
        ):
            call()
    assert place.open().read().records == before


def test_a_driver_that_has_run_nothing_closes_the_job_all_the_same(place: Place) -> None:
    running, closing = driver(place.open(), "running"), driver(place.open(), "closing")
    running.claim()
    assert closing.close(0, JobStatus.CANCELED).ended is JobStatus.CANCELED
    with pytest.raises(PublicationFencedError):
        running.publish(snapshot(1, attempt=1))


@pytest.mark.parametrize("place", ["memory", "files"], indirect=True)
def test_the_journal_stays_short_though_nothing_completes(place: Place) -> None:
    client, attempt = driver(place.open(), "driver"), 0
    for _ in range(PRUNE_ABOVE):
        attempt = client.claim(own_attempt=attempt)[0].attempt
        for request in range(4):
            client.reserve_id(attempt, f"request-{request}", after=0)
    journal = place.open().read()
    assert journal.attempt == PRUNE_ABOVE
    assert len(journal.records) < 2 * PRUNE_ABOVE


@pytest.mark.parametrize("place", STORES[1:], indirect=True)
@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        (CLAIM.name, b"", "unreadable"),
        (CLAIM.name, encode_record(CLAIM)[:-3], "unreadable"),
        (CLAIM.name, b"\xff\xfe garbage", "unreadable"),
        (CLAIM.name, encode_record(CLAIM).replace(b'"version":1', b'"version":2'), "its format is 2"),
        (CLAIM.name, encode_record(CLAIM).replace(b"CLAIM", b"CLAIN"), "CLAIN"),
        (CLAIM.name, encode_record(CLAIM).replace(b"CLAIM", b"END"), "lacks fields of END records"),
        (CLAIM.name, encode_record(Record(RecordKind.CLAIM, 2, "me")), "it holds the record claims/0+2"),
        (ONE_OF_EACH[3].name, encode_record(Record(RecordKind.CHECKPOINT, 1, "me")), "lacks"),
    ],
)
def test_a_damaged_record_is_an_error_that_names_it(place: Place, name: str, data: bytes, reason: str) -> None:
    assert place.overwrite is not None
    journal = place.open()
    journal.create(Record(RecordKind.ID, 1, "me", checkpoint_id=1))
    place.overwrite(name, data)
    with pytest.raises(DamagedError, match=f"{name}.*{reason}"):
        journal.read()
    with pytest.raises(DamagedError):
        driver(journal, "driver").claim()


@pytest.mark.parametrize("place", STORES[1:], indirect=True)
def test_what_else_lies_beside_the_records_is_passed_over(place: Place) -> None:
    assert place.overwrite is not None
    place.overwrite("claims/README", b"not a record")
    place.overwrite("rows/something", b"not a record")
    assert place.open().read().records == ()


def test_readings_beside_a_writer_are_never_a_mix(tmp_path: Path) -> None:
    """Each attempt publishes once and then deletes all before it, so the newest is always there."""
    journal = ObjectJournal(FileObjects(), f"{tmp_path}/journal")
    is_over = threading.Event()

    def write() -> list[int]:
        try:
            for number in range(1, 16):
                client = driver(journal, f"driver-{number}")
                attempt = client.claim()[0].attempt
                client.publish(snapshot(number, attempt))
                journal.delete(journal.read().obsolete([number]))
        finally:
            is_over.set()
        return []

    def read() -> list[int]:
        latest = [0]
        reader = ObjectJournal(FileObjects(), f"{tmp_path}/journal")
        while not is_over.is_set():
            found = reader.read().latest
            latest.append(0 if found is None else found.checkpoint_id or 0)
        return latest

    _, latest = in_parallel([write, read])
    assert latest == sorted(latest)


# ZooKeeper alone.


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        yield server


@pytest.mark.slow
def test_a_killed_zookeeper_loses_nothing_and_is_found_again(own_server: ZooKeeperServer) -> None:
    journal = ZooKeeperJournal(own_server.hosts, "/snapline/job", timeout_ms=TIMEOUT_MS)
    try:
        client = driver(journal, "driver")
        client.claim()
        for number in range(1, 4):
            own_server.restart()
            client.publish(snapshot(number, attempt=1))
        own_server.restart()
        assert [record.checkpoint_id for record in journal.read().canonical] == [1, 2, 3]
    finally:
        journal.close()


@pytest.mark.slow
def test_calls_to_a_zookeeper_that_is_down_fail_in_bounded_time(own_server: ZooKeeperServer) -> None:
    journal = ZooKeeperJournal(own_server.hosts, "/snapline/job", timeout_ms=SHORT_TIMEOUT_MS)
    try:
        journal.create(CLAIM)
        own_server.kill()
        for call in (journal.read, lambda: journal.delete([CLAIM])):
            begin_s = time.monotonic()
            with pytest.raises(StorageError, match=f"no ZooKeeper at {own_server.hosts} after 2 s; check"):
                call()
            assert time.monotonic() - begin_s < 5 * SHORT_TIMEOUT_MS / 1000
        with pytest.raises(StorageError, match="no ZooKeeper"):
            journal.create(CLAIM)
        own_server.start()
        assert driver(journal, "driver").read_journal().records == (CLAIM,)
    finally:
        journal.close()


@pytest.mark.slow
def test_a_zookeeper_that_hangs_leaves_open_what_became_of_a_record(own_server: ZooKeeperServer) -> None:
    journal = ZooKeeperJournal(own_server.hosts, "/snapline/job", timeout_ms=SHORT_TIMEOUT_MS)
    patient = ZooKeeperJournal(own_server.hosts, "/snapline/job", timeout_ms=TIMEOUT_MS)
    try:
        assert journal.read().records == ()
        own_server.freeze()
        with pytest.raises(StorageError) as caught:
            journal.create(CLAIM)
        assert caught.value.possibly_inconsistent
        with pytest.raises(StorageError):
            journal.read()
        own_server.thaw()
        assert patient.read().records in ((), (CLAIM,))
        assert driver(patient, "driver").claim()[1]
    finally:
        journal.close()
        patient.close()


@pytest.mark.slow
def test_records_made_with_credentials_are_for_nobody_else(
    zookeeper: ZooKeeperServer, caplog: pytest.LogCaptureFixture
) -> None:
    path, secret = f"/private-{uuid.uuid4().hex}/job", "s3cr3t"
    caplog.set_level(1)
    journal = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS, auth=("digest", f"user:{secret}"))
    same = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS, auth=("digest", f"user:{secret}"))
    stranger = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS)
    try:
        assert journal.create(CLAIM)
        assert same.read().records == (CLAIM,)
        with pytest.raises(StorageError, match=r"refused to read .*NoAuthError.*credentials"):
            stranger.read()
        with pytest.raises(StorageError, match="refused to create"):
            stranger.create(Record(RecordKind.CLAIM, 2, "stranger"))
    finally:
        for opened in (journal, same, stranger):
            opened.close()
    assert secret not in repr(journal)
    assert any(
        record.name.endswith("zookeeper_journal.client") and record.levelno <= logging.DEBUG
        for record in caplog.records
    )
    assert secret not in caplog.text


@pytest.mark.slow
def test_jobs_with_different_credentials_share_what_is_above_them(zookeeper: ZooKeeperServer) -> None:
    root = f"/shared-{uuid.uuid4().hex}"
    credentials = [("digest", "one:s3cr3t"), ("digest", "two:s3cr3t"), None]
    journals = [
        ZooKeeperJournal(zookeeper.hosts, f"{root}/jobs/{number}", timeout_ms=TIMEOUT_MS, auth=auth)
        for number, auth in enumerate(credentials)
    ]
    stranger = ZooKeeperJournal(zookeeper.hosts, f"{root}/jobs/0", timeout_ms=TIMEOUT_MS, auth=credentials[1])
    try:
        for journal in journals:
            journal.prepare()
            journal.prepare()
            assert journal.create(CLAIM)
            assert journal.read().records == (CLAIM,)
        with pytest.raises(StorageError, match=r"refused to write to .*NoAuthError.*same credentials"):
            stranger.prepare()
    finally:
        for opened in (*journals, stranger):
            opened.close()


@pytest.mark.slow
def test_an_acl_says_who_may_do_what(zookeeper: ZooKeeperServer) -> None:
    path, auth = f"/readable-{uuid.uuid4().hex}/job", ("digest", "user:s3cr3t")
    acl = "auth::cdrwa,world:anyone:r"
    journal = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS, auth=auth, acl=acl)
    stranger = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS)
    try:
        assert journal.create(CLAIM)
        assert stranger.read().records == (CLAIM,)
        with pytest.raises(StorageError, match="refused to create"):
            stranger.create(Record(RecordKind.CLAIM, 2, "stranger"))
        with pytest.raises(StorageError, match="refused to delete"):
            stranger.delete([CLAIM])
    finally:
        journal.close()
        stranger.close()


@pytest.mark.slow
def test_rows_that_are_empty_go_with_their_last_record(zookeeper: ZooKeeperServer) -> None:
    from kazoo.client import KazooClient

    path = f"/snapline/{uuid.uuid4().hex}"
    journal = ZooKeeperJournal(zookeeper.hosts, path, timeout_ms=TIMEOUT_MS)
    client = KazooClient(zookeeper.hosts)
    client.start()
    try:
        records = [Record(RecordKind.SEAL, attempt, "me", 0) for attempt in range(1, 600)]
        for record in records[:3]:
            journal.create(record)
        journal.delete(records[1:])
        assert client.get_children(f"{path}/rows") == [records[0].name.split("/")[1]]
        assert journal.create(records[1])
    finally:
        journal.close()
        client.stop()
        client.close()

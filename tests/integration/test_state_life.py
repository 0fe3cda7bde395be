"""State from its first checkpoint to its last: written, published, retained, restored, rescaled, inspected."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from snapline.cli import main
from snapline.errors import StorageError
from snapline.protocol.keygroups import key_group_ranges
from snapline.protocol.restore.restore_plan import RestorePlan, RestoreVertex, plan_restore
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.state.channel_state import ChannelParts, ChannelStates, read_channel
from snapline.state.keyed_backend import KeyedBackend
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.raw_keyed_state import RawKeyedState
from snapline.state.rocksdb.rocksdb_backend import RocksDbBackend
from snapline.state.stable_hash import hash_columns, key_groups
from snapline.state.subtask_states import SubtaskStates
from snapline.state.timers import TimeDomain
from snapline.storage.archive import Archive
from snapline.storage.journals.journal_store import ObjectJournal
from snapline.storage.local_copies import LocalCopies
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_store import Bytes
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter
from snapline.types import ClaimMode, SnapshotKind, SubtaskId

MAX_PARALLELISM = 128
VERTEX = "counts"
NAMES = [f"user {number}" for number in range(2_000)]


class Job:
    """A vertex of one operator over a few subtasks, with the storage a driver would use, and no runtime."""

    def __init__(self, directory: Path, backend: str, *, retained: int = 1, driver: str = "driver-1") -> None:
        self.directory = directory
        self.objects = FileObjects()
        root = str(directory / "storage" / "job")
        self.archive = Archive(self.objects, ObjectJournal(self.objects, f"{root}/journal"), root, driver)
        self.journal, is_ours = self.archive.claim()
        assert is_ours
        self.attempt = self.journal.attempt
        own = self.archive.recover(self.attempt).snapshots
        self.retained = RetainedSnapshots.restored(retained, own, None, _CLAIM)
        self.latest = own[-1] if own else None
        self.subtasks: list[SubtaskStates] = []
        self._backend = backend
        self._executor = ThreadPoolExecutor(2)

    def deploy(self, parallelism: int, restore_from: Snapshot | None, *, local: bool = False) -> None:
        self.close()
        plan = None if restore_from is None else _plan(restore_from, parallelism)
        self.subtasks = []
        for index, groups in enumerate(key_group_ranges(MAX_PARALLELISM, parallelism)):
            common: dict[str, Any] = {
                "max_parallelism": MAX_PARALLELISM,
                "key_groups": groups,
                "clock": int,
                "uid": VERTEX,
            }
            keyed: KeyedBackend
            if self._backend == "memory":
                keyed = MemoryBackend("string", **common)
            else:
                keyed = RocksDbBackend("string", directory=self.directory / f"db-{self.attempt}-{index}", **common)
            states = SubtaskStates(OperatorStates(VERTEX, index), keyed, RawKeyedState(VERTEX, groups, MAX_PARALLELISM))
            if plan is not None and restore_from is not None:
                copies = self.copies(index) if local else None
                source = SnapshotReader(self.objects, copies, restore_from.id)
                states.restore(plan.subtasks[SubtaskId(VERTEX, index)][VERTEX], source)
            self.subtasks.append(states)

    def copies(self, index: int) -> LocalCopies:
        return LocalCopies(self.directory / "local" / str(index))

    def checkpoint(self, *, full: bool = False, local: bool = False) -> Snapshot:
        """Take, publish and retain one; delete what it subsumes."""
        number = self.archive.reserve_id(self.attempt, f"request-{self.retained.latest_id}")
        location = self.archive.location(number)
        states = {}
        for index, subtask in enumerate(self.subtasks):
            pending = subtask.snapshot(full=full)
            target = SnapshotWriter(
                self.objects,
                location,
                self.archive.shared_directory,
                attempt=self.attempt,
                checkpoint_id=number,
                uid=VERTEX,
                subtask=index,
                local=self.copies(index) if local else None,
            )
            written = self._executor.submit(pending.write, target).result()
            assert self.retained.register_all([written.state], number) is None
            states[index] = written.state
        operator = OperatorState(VERTEX, len(self.subtasks), MAX_PARALLELISM, states)
        snapshot = Snapshot(number, SnapshotKind.CHECKPOINT, self.attempt, 1_000 * number, location, {VERTEX: operator})
        self.archive.write_metadata(snapshot)
        self.archive.publish(snapshot)
        retirement = self.retained.add(snapshot)
        for subtask in self.subtasks:
            subtask.confirm(number)
        for old in retirement.delete:
            self.archive.delete_snapshot(old, self.retained)
        self.archive.delete_shared(retirement.shared, self.retained)
        return snapshot

    def close(self) -> None:
        for subtask in self.subtasks:
            subtask.close()
        self.subtasks = []


_CLAIM = ClaimMode.NO_CLAIM


GROUPS = dict(zip(NAMES, key_groups(hash_columns([pa.array(NAMES)]), MAX_PARALLELISM).tolist(), strict=True))


def _plan(snapshot: Snapshot, parallelism: int) -> RestorePlan:
    return plan_restore(snapshot, [RestoreVertex(VERTEX, parallelism, (VERTEX,))], [])


def _by_owner(job: Job, names: list[str]) -> list[tuple[SubtaskStates, KeyedBackend, list[str]]]:
    """Each subtask with those of the keys that are its own."""
    result = []
    for subtask in job.subtasks:
        keyed = subtask.keyed
        assert keyed is not None
        result.append((subtask, keyed, [name for name in names if GROUPS[name] in keyed.key_groups]))
    return result


def _count(job: Job, names: list[str]) -> None:
    """Add one to the count of each, note it in a list, and have a timer for it."""
    for subtask, keyed, mine in _by_owner(job, names):
        keyed.reducing_state("n", "bigint", "sum").add_all(mine, [1] * len(mine))
        keyed.list_state("log", "string").append(mine, mine)
        keyed.timers().register_all(TimeDomain.EVENT, mine, 1_000)
        subtask.operator.list_state("seen", "bigint").add(len(mine))
        if mine and subtask.raw_keyed is not None:
            subtask.raw_keyed.write(GROUPS[mine[0]], mine[0].encode())


def _counts(job: Job, names: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, keyed, mine in _by_owner(job, names):
        counts = keyed.reducing_state("n", "bigint", "sum").take(mine).to_pylist()
        logs = keyed.list_state("log", "string").take(mine).to_pylist()
        assert [len(log) for log in logs] == [count or 0 for count in counts]
        found |= dict(zip(mine, counts, strict=True))
    return found


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_whole_life(tmp_path: Path, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, backend, retained=2)
    job.deploy(3, None)
    for round_ in range(5):
        _count(job, NAMES[: 400 * (round_ + 1)])
        job.checkpoint()
    _count(job, NAMES)  # lost: no checkpoint follows
    job.close()

    again = Job(tmp_path, backend, retained=2, driver="driver-2")
    assert again.latest is not None
    assert again.latest.id == 5
    again.deploy(2, again.latest)
    assert _counts(again, NAMES) == {name: 5 - number // 400 for number, name in enumerate(NAMES)}
    assert sum(len(subtask.keyed.timers()) for subtask in again.subtasks if subtask.keyed) == len(NAMES)
    seen = [element for subtask in again.subtasks for element in subtask.operator.list_state("seen", "bigint").get()]
    assert (len(seen), sum(seen)) == (15, sum(400 * (round_ + 1) for round_ in range(5)))
    pieces = [piece for subtask in again.subtasks if subtask.raw_keyed for piece in subtask.raw_keyed.read()]
    assert len(pieces) == 15

    _count(again, NAMES)
    last = again.checkpoint()
    kept = {item.path for snapshot in again.retained.snapshots for item in snapshot.objects() if not item.is_inline}
    kept |= {snapshot.metadata_path for snapshot in again.retained.snapshots}
    stored = {info.path for info in again.objects.list(again.archive.directory)}
    assert {path for path in stored if "/journal/" not in path} == kept
    again.close()

    assert main(["inspect", last.location, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (operator,) = facts["operators"]
    assert (operator["uid"], operator["parallelism"], len(operator["subtasks"])) == (VERTEX, 2, 2)
    assert main(["inspect", last.location, "--state", f"{VERTEX}/n", "--json", "--limit", "0"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["key"]: row["value"] for row in rows} == {name: 6 - number // 400 for number, name in enumerate(NAMES)}
    assert main(["inspect", last.location]) == 0
    assert "log" in capsys.readouterr().out


def test_incremental_checkpoints_share_files(tmp_path: Path) -> None:
    job = Job(tmp_path, "rocksdb", retained=2)
    job.deploy(1, None)
    _count(job, NAMES)
    first = job.checkpoint()
    _count(job, NAMES[:10])
    second = job.checkpoint()
    assert first.shared()
    assert set(first.shared()) < set(second.shared())
    full = job.checkpoint(full=True)
    assert not set(full.shared()) & set(second.shared())
    _count(job, NAMES[:10])
    for _ in range(3):
        last = job.checkpoint()
    names = {info.path for info in job.objects.list(job.archive.shared_directory)}
    assert names == {item.path for snapshot in job.retained.snapshots for item in snapshot.shared().values()}
    job.deploy(1, last)
    assert _counts(job, NAMES[:11])[NAMES[0]] == 3
    # What was restored is reused again.
    reused = job.checkpoint()
    assert set(reused.shared()) >= set(last.shared())
    job.close()


@pytest.mark.parametrize("damage", [False, True])
def test_local_recovery(tmp_path: Path, backend: str, damage: bool, caplog: pytest.LogCaptureFixture) -> None:
    job = Job(tmp_path, backend)
    job.deploy(2, None)
    _count(job, NAMES)
    job.checkpoint(local=True)
    _count(job, NAMES)
    last = job.checkpoint(local=True)
    for index in range(2):
        job.copies(index).confirm(last.id)
    remote = [item for item in last.objects() if not item.is_inline]
    copies = [job.copies(index).find(last.id, item.path) for item in remote for index in range(2)]
    assert len(list(filter(None, copies))) == len(remote)
    if damage:
        for copy in filter(None, copies):
            data = bytearray(copy.read_bytes())
            data[len(data) // 2] ^= 1
            copy.unlink()
            copy.write_bytes(data)
    else:
        for item in remote:
            Path(item.path).unlink()
    with caplog.at_level(logging.WARNING):
        job.deploy(2, last, local=True)
    assert set(_counts(job, NAMES).values()) == {2}
    assert ("reading it from storage" in caplog.text) == damage
    job.close()


def test_a_cancelled_snapshot_leaves_nothing(tmp_path: Path, backend: str) -> None:
    job = Job(tmp_path, backend)
    job.deploy(1, None)
    _count(job, NAMES)
    pending = job.subtasks[0].snapshot()
    target = _target(job, "/chk-9")
    target.cancel()
    with pytest.raises(SnapshotCancelledError):
        pending.write(target)
    assert job.objects.list(job.archive.directory + "/chk-9") == []
    # Nothing is lost by it.
    snapshot = job.checkpoint()
    job.deploy(1, snapshot)
    assert set(_counts(job, NAMES).values()) == {1}
    job.close()


def test_a_failed_write_leaves_nothing(tmp_path: Path, backend: str) -> None:
    job = Job(tmp_path, backend)
    job.deploy(1, None)
    _count(job, NAMES)
    pending = job.subtasks[0].snapshot()
    objects = _FailingObjects(fail_at=2)
    target = _target(job, "/chk-9", objects)
    with pytest.raises(StorageError, match="full"):
        pending.write(target)
    assert job.objects.list(job.archive.directory + "/chk-9") == []
    assert job.objects.list(job.archive.shared_directory) == []
    snapshot = job.checkpoint()
    job.deploy(1, snapshot)
    assert set(_counts(job, NAMES).values()) == {1}
    job.close()


def test_in_flight_data_is_part_of_it(tmp_path: Path) -> None:
    job = Job(tmp_path, "memory")
    job.deploy(1, None)
    target = _target(job, "/chk-1")
    with ThreadPoolExecutor(1) as executor:
        channels = ChannelStates(executor)
        future = channels.start(1, target)
        batch = pa.record_batch({"x": [1, 2, 3]})
        channels.add_input(1, "in", 0, 0, batch)
        channels.add_output(1, "out", 0, 1, batch.slice(1))
        channels.finish_input(1)
        channels.finish_output(1)
        written = job.subtasks[0].snapshot(ended=True).write(target, future)
    assert written.state.ended
    source = SnapshotReader(job.objects)
    assert [part.to_pydict() for part in read_channel(written.state.inputs[0], source)] == [{"x": [1, 2, 3]}]
    assert [part.to_pydict() for part in read_channel(written.state.outputs[0], source)] == [{"x": [2, 3]}]
    job.close()


def test_in_flight_data_that_fails_fails_it(tmp_path: Path) -> None:
    job = Job(tmp_path, "memory")
    job.deploy(1, None)
    _count(job, NAMES)
    failed: Future[ChannelParts] = Future()
    failed.set_exception(StorageError("too much of it"))
    with pytest.raises(StorageError, match="too much"):
        job.subtasks[0].snapshot().write(_target(job, "/chk-1"), failed)
    assert job.objects.list(job.archive.directory + "/chk-1") == []
    job.close()


def test_the_task_goes_on_while_a_snapshot_is_written(tmp_path: Path, backend: str) -> None:
    """Batches are processed between the start and the end of the asynchronous part, and are not in it."""
    job = Job(tmp_path, backend)
    job.deploy(1, None)
    _count(job, NAMES)
    pending = job.subtasks[0].snapshot()
    reached, go_on = Event(), Event()
    objects = _WaitingObjects(reached, go_on)
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(pending.write, _target(job, "/chk-1", objects))
        assert reached.wait(30)
        _count(job, NAMES)
        go_on.set()
        state = future.result(30).state
    operator = OperatorState(VERTEX, 1, MAX_PARALLELISM, {0: state})
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, job.archive.directory + "/chk-1", {VERTEX: operator})
    assert set(_counts(job, NAMES).values()) == {2}
    job.deploy(1, snapshot)
    assert set(_counts(job, NAMES).values()) == {1}
    job.close()


def _target(job: Job, name: str, objects: FileObjects | None = None) -> SnapshotWriter:
    return SnapshotWriter(
        objects or job.objects,
        job.archive.directory + name,
        job.archive.shared_directory,
        attempt=job.attempt,
        checkpoint_id=int(name.rsplit("-", 1)[-1]),
        uid=VERTEX,
        subtask=0,
    )


class _FailingObjects(FileObjects):
    """The n-th object cannot be written any more."""

    def __init__(self, fail_at: int) -> None:
        super().__init__()
        self._left = fail_at

    def write(self, path: str, data: Bytes) -> None:
        self._once(lambda: super(_FailingObjects, self).write(path, data))

    def upload(self, source: Path, path: str) -> None:
        self._once(lambda: super(_FailingObjects, self).upload(source, path))

    def _once(self, write: Callable[[], None]) -> None:
        self._left -= 1
        if self._left <= 0:
            raise StorageError("the disk is full")
        write()


class _WaitingObjects(FileObjects):
    """Waits at the first object."""

    def __init__(self, reached: Event, go_on: Event) -> None:
        super().__init__()
        self._reached = reached
        self._go_on = go_on

    def write(self, path: str, data: Bytes) -> None:
        self._wait()
        super().write(path, data)

    def upload(self, source: Path, path: str) -> None:
        self._wait()
        super().upload(source, path)

    def _wait(self) -> None:
        self._reached.set()
        assert self._go_on.wait(30)

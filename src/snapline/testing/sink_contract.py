"""The test suite that every committing sink has to pass: nothing is visible before its commit, and each row is once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pyarrow as pa

from snapline.contracts.sink import (
    CommitResult,
    CommitScope,
    Committable,
    GlobalCommitter,
    Permit,
    RetryWith,
    Sink,
    SinkContext,
)

_MAX_TRIES = 10
_DONE = (CommitResult.COMMITTED, CommitResult.ALREADY_COMMITTED)


class Crash(IntEnum):
    """Where in a checkpoint the processes of an attempt die."""

    ONE_HAS_WRITTEN = 0
    ALL_HAVE_WRITTEN = 1
    ONE_HAS_PREPARED = 2
    ALL_HAVE_PREPARED = 3
    CHECKPOINT_IS_DURABLE = 4
    ONE_COMMIT_IS_DONE = 5
    ALL_COMMITS_ARE_DONE = 6


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What a checkpoint holds of a sink: what is to be committed, and the states of its writers."""

    id: int = -1
    committables: tuple[Committable, ...] = ()
    states: tuple[Any, ...] = ()


class SinkContract(ABC):
    """Subclass it in a pytest module, with a name that starts with `Test`, and give it your sink:

        class TestLedger(SinkContract):
            def make_sink(self, directory: Path) -> Sink:
                return Ledger(directory / "ledger.db")

            def visible_numbers(self, directory: Path) -> list[int]:
                return read_ledger(directory / "ledger.db")["x"].to_pylist()

    Each test makes a sink of its own, writes with writers of one or several attempts, as tasks do, and looks at what
    everybody outside can see. Rows have one column, `x`, of whole numbers; override `batch` if your sink needs others.
    With a global committer, that commits instead of the writers. Set `keeps_order` if `visible_numbers` lists the rows
    of a subtask in the order in which they were written.
    """

    keeps_order = False

    @abstractmethod
    def make_sink(self, directory: Path) -> Sink:
        """A sink with nothing in it. `directory` is empty, and its own."""

    @abstractmethod
    def visible_numbers(self, directory: Path) -> Iterable[int]:
        """The numbers of all rows that are final for everybody outside, in any order, each as often as it is there."""

    def batch(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """Rows that can be told apart by these numbers."""
        return pa.record_batch([pa.array(numbers, pa.int64())], names=["x"])

    def test_rows_are_visible_after_their_commit(self, tmp_path: Path) -> None:
        """Neither `write` nor `prepare` shows anything, and a commit shows what was prepared with it."""
        attempt = self._start(tmp_path)
        attempt.write(1, 2)
        attempt.write(3)
        self._check(tmp_path, [], "after write()")
        prepared = attempt.prepare(1)
        attempt.write(4)
        self._check(tmp_path, [], "after prepare()")
        attempt.commit(prepared)
        self._check(tmp_path, [1, 2, 3], "after commit()")
        attempt.commit(attempt.prepare(2))
        self._check(tmp_path, [1, 2, 3, 4], "after the second commit()")
        attempt.close()

    def test_without_rows_there_is_nothing_to_commit(self, tmp_path: Path) -> None:
        """`prepare` then returns nothing."""
        attempt = self._start(tmp_path)
        prepared = attempt.prepare(1).committables
        if prepared:
            raise AssertionError(f"prepare() without rows must return nothing, and returns {list(prepared)}")
        attempt.close()
        self._check(tmp_path, [], "after prepare() without rows")

    def test_a_second_commit_changes_nothing(self, tmp_path: Path) -> None:
        """By the same process, or by another that was restored."""
        attempt = self._start(tmp_path)
        attempt.write(1)
        prepared = attempt.prepare(1)
        attempt.commit(prepared)
        attempt.commit(prepared)
        other = self._attempt(2)
        other.abort_newer(1)
        self._check(tmp_path, [1], "after abort_newer(), which must leave what is committed")
        other.commit(prepared)
        self._check(tmp_path, [1], "after committing three times")
        attempt.close()
        other.close()

    def test_a_restored_writer_commits_what_was_prepared_and_drops_the_rest(self, tmp_path: Path) -> None:
        """The first writer dies behind checkpoint 1, and another goes on from there."""
        dead = self._start(tmp_path)
        dead.write(1)
        first = dead.prepare(1)
        dead.write(2)
        dead.prepare(2)
        dead.write(3)
        after = self._attempt(2)
        after.restore(first)
        self._check(tmp_path, [1], "after a restore from checkpoint 1")
        after.write(2, 3)
        after.commit(after.prepare(2))
        self._check(tmp_path, [1, 2, 3], "after the rows were written again")
        dead.close()
        after.close()
        self._check(tmp_path, [1, 2, 3], "after the dead writer was closed")

    def test_rows_that_are_not_prepared_end_with_their_writer(self, tmp_path: Path) -> None:
        """They will be written again by the next attempt."""
        attempt = self._start(tmp_path)
        attempt.write(*range(1000))
        attempt.write(1000)
        attempt.close()
        self._check(tmp_path, [], "after close()")
        after = self._attempt(2)
        after.restore(_Snapshot())
        after.write(5)
        after.commit(after.prepare(1))
        self._check(tmp_path, [5], "after the next attempt")
        after.close()

    def test_subtasks_write_side_by_side(self, tmp_path: Path) -> None:
        """Five thousand rows each."""
        attempt = self._start(tmp_path, parallelism=2)
        for subtask, start in enumerate((0, 5000)):
            for part in range(start, start + 5000, 1000):
                attempt.write(*range(part, part + 1000), subtask=subtask)
        attempt.commit(attempt.prepare(1))
        attempt.close()
        self._check(tmp_path, list(range(10_000)), "after the commits of two subtasks")

    def test_crashes_at_every_step_lose_and_double_nothing(self, tmp_path: Path) -> None:
        """Each attempt dies at another step of a checkpoint; the next restores the last durable one and goes on.

        Then the processes that were taken for dead wake up, and commit what they may.
        """
        attempt, durable, number, written = self._start(tmp_path, parallelism=2), _Snapshot(), 0, 0
        for crash in Crash:
            rows = range(written, written + 6)
            number += 1
            last = attempt.run_until(crash, number, rows, durable)
            dead, durable = attempt, last
            attempt = self._attempt(dead.number + 1, parallelism=2)
            attempt.restore(durable)
            if crash < Crash.CHECKPOINT_IS_DURABLE:
                self._check(tmp_path, list(range(written)), f"after a crash where {_said(crash)}, and a restore")
                number += 1
                durable = attempt.run_until(Crash.ALL_COMMITS_ARE_DONE, number, rows, durable)
            written += len(rows)
            self._check(tmp_path, list(range(written)), f"after a crash where {_said(crash)}, and all rows again")
            dead.wake_up(last)
            self._check(tmp_path, list(range(written)), f"after the dead processes ({_said(crash)}) woke up")
            dead.close()
        number += 1
        attempt.run_until(Crash.ALL_COMMITS_ARE_DONE, number, range(written, written + 6), durable)
        attempt.close()
        self._check(tmp_path, list(range(written + 6)), "after the last attempt")

    def test_a_late_commit_of_a_dead_process_changes_nothing(self, tmp_path: Path) -> None:
        """It comes when the next attempt has long committed newer checkpoints, which then go on."""
        dead = self._start(tmp_path)
        dead.write(1)
        first = dead.prepare(1)
        after = self._attempt(2)
        after.restore(first)
        after.write(2)
        after.commit(after.prepare(2))
        dead.wake_up(first)
        self._check(tmp_path, [1, 2], "after a late commit of a dead process")
        after.write(3)
        after.commit(after.prepare(3))
        dead.wake_up(first)
        self._check(tmp_path, [1, 2, 3], "after the next commit, and another late one")
        dead.close()
        after.close()

    def test_what_was_prepared_for_an_aborted_checkpoint_is_committed_with_the_next(self, tmp_path: Path) -> None:
        """In the order of the checkpoints, each by itself."""
        attempt = self._start(tmp_path, parallelism=2)
        attempt.write(1, subtask=0)
        aborted = attempt.prepare(1)
        attempt.write(2, subtask=1)
        attempt.write(3, subtask=0)
        last = attempt.prepare(2, aborted)
        attempt.commit(last)
        self._check(tmp_path, [1, 2, 3], "after checkpoint 1 was aborted and 2 has completed")
        attempt.close()

    def test_any_number_of_subtasks_can_commit_and_go_on(self, tmp_path: Path) -> None:
        """After a rescale, what one subtask prepared is committed by another."""
        attempt, number, written = self._start(tmp_path, parallelism=2), 0, 0
        for parallelism in (1, 3, 2):
            rows = range(written, written + 6)
            number += 1
            prepared = attempt.run_until(Crash.CHECKPOINT_IS_DURABLE, number, rows, _Snapshot())
            written += len(rows)
            attempt.close()
            attempt = self._attempt(attempt.number + 1, parallelism=parallelism)
            attempt.restore(prepared)
            self._check(tmp_path, list(range(written)), f"after a restore with parallelism {parallelism}")
        attempt.write(written)
        attempt.commit(attempt.prepare(number + 1))
        attempt.close()
        self._check(tmp_path, list(range(written + 1)), "after the last checkpoint")

    def test_another_start_is_not_taken_for_the_first(self, tmp_path: Path) -> None:
        """A job whose checkpoints were deleted counts them from 1 again: its output is new, and is not dropped."""
        first = self._start(tmp_path)
        for number in (1, 2):
            first.write(number)
            first.commit(first.prepare(number))
        first.close()
        self._check_committed("job.1", 2)
        second = self._attempt(1, lineage="job.2")
        second.restore(_Snapshot())
        self._check(tmp_path, [1, 2], "after another start, which must leave what the first has committed")
        second.write(3)
        second.commit(second.prepare(1))
        self._check(tmp_path, [1, 2, 3], "after the first commit of another start")
        self._check_committed("job.2", 1)
        self._check_committed("job.1", 2)
        self._check_committed("job.3", None)
        second.close()

    def test_rows_stay_in_order(self, tmp_path: Path) -> None:
        """Those of each subtask, through crashes. Only if the sink `keeps_order`."""
        if not self.keeps_order:
            return
        attempt = self._start(tmp_path, parallelism=2)
        last = attempt.run_until(Crash.ONE_COMMIT_IS_DONE, 1, range(10), _Snapshot())
        after = self._attempt(2, parallelism=2)
        after.restore(last)
        after.run_until(Crash.ALL_COMMITS_ARE_DONE, 2, range(10, 20), last)
        seen = list(self.visible_numbers(tmp_path))
        for parity in (0, 1):
            own = [number for number in seen if number % 2 == parity]
            if own != sorted(own):
                raise AssertionError(f"the rows of subtask {parity} are visible in the order {own}")
        attempt.close()
        after.close()

    def _start(self, directory: Path, parallelism: int = 1) -> _Attempt:
        """The first attempt of a job that starts."""
        self.sink = self.make_sink(directory)
        self.sink.check(self.batch([]).schema)
        self.sink.check_access()
        self._check(directory, [], "after check_access()")
        self.sink.starting("job")
        attempt = self._attempt(parallelism=parallelism)
        attempt.restore(_Snapshot())
        return attempt

    def _attempt(self, number: int = 1, *, parallelism: int = 1, lineage: str = "job.1") -> _Attempt:
        return _Attempt(self, number, parallelism, lineage)

    def _check(self, directory: Path, expected: list[int], when: str) -> None:
        found = sorted(self.visible_numbers(directory))
        if found != expected:
            raise AssertionError(f"{when}: {_shown(expected)} must be visible, and {_shown(found)} are")

    def _check_committed(self, lineage: str, expected: int | None) -> None:
        found = self.sink.committed_until(lineage, "out")
        if found is not None and found != expected:
            raise AssertionError(f"committed_until() of {lineage} is {found}; it must be {expected}, or None")


class _Attempt:
    """The writers of one attempt, and its committer. The sink is pickled on its way, and so is all that is prepared."""

    def __init__(self, contract: SinkContract, number: int, parallelism: int, lineage: str) -> None:
        self.number = number
        self._contract = contract
        self._lineage = lineage
        sink: Sink = cloudpickle.loads(cloudpickle.dumps(contract.sink))
        contexts = [SinkContext("job", "out", index, parallelism, number, lineage) for index in range(parallelism)]
        self._writers = [sink.writer(context) for context in contexts]
        self._committer: GlobalCommitter | None = None
        if sink.commit_scope is not CommitScope.SUBTASK:
            # One that commits on the driver is not pickled.
            owner = contract.sink if sink.commit_scope is CommitScope.DRIVER else sink
            self._committer = owner.global_committer(SinkContext("job", "out", 0, 1, number, lineage))

    def restore(self, snapshot: _Snapshot) -> None:
        for subtask, writer in enumerate(self._writers):
            if states := list(snapshot.states[subtask :: len(self._writers)]):
                writer.recover(states)
        self.abort_newer(snapshot.id)
        self.commit(snapshot)

    def abort_newer(self, checkpoint_id: int) -> None:
        for writer in self._writers:
            writer.abort_newer(checkpoint_id)
        if self._committer is not None:
            self._committer.abort_newer(checkpoint_id)

    def write(self, *numbers: int, subtask: int = 0) -> None:
        self._writers[subtask].write(self._contract.batch(numbers))

    def prepare(self, checkpoint_id: int, before: _Snapshot | None = None) -> _Snapshot:
        """All subtasks prepare. `before` is what was prepared and has not been committed yet."""
        made = [self._prepared(subtask, checkpoint_id) for subtask in range(len(self._writers))]
        states = [state for writer in self._writers for state in writer.state(checkpoint_id)]
        earlier = () if before is None else before.committables
        return _Snapshot(checkpoint_id, (*earlier, *self._committables(made, checkpoint_id)), tuple(_travelled(states)))

    def _prepared(self, subtask: int, checkpoint_id: int) -> list[Any]:
        return _travelled(self._writers[subtask].prepare(checkpoint_id))

    def _committables(self, made: list[list[Any]], checkpoint_id: int) -> list[Committable]:
        if self._committer is not None:
            payloads = [payload for part in made for payload in part]
            name = f"{self._lineage}/out.commit/0/{self.number}/{checkpoint_id}/0"
            return [Committable(name, checkpoint_id, payloads)] if payloads else []
        return [
            Committable(f"{self._lineage}/out/{subtask}/{self.number}/{checkpoint_id}/{index}", checkpoint_id, payload)
            for subtask, payloads in enumerate(made)
            for index, payload in enumerate(payloads)
        ]

    def commit(self, snapshot: _Snapshot) -> None:
        for index, entry in enumerate(snapshot.committables):
            self._commit_one(entry, index, snapshot.id)

    def _commit_one(self, entry: Committable, index: int, permitted_id: int) -> None:
        commit = self._writers[index % len(self._writers)].commit if self._committer is None else self._committer.commit
        result = _committed(commit, entry, Permit(self.number, permitted_id))
        if result not in _DONE:
            raise AssertionError(f"commit() of {entry.payload!r} gave {result}")

    def run_until(self, crash: Crash, checkpoint_id: int, rows: range, durable: _Snapshot) -> _Snapshot:
        """Write rows and take a checkpoint, up to this step. Returns the snapshot that is durable then."""
        self.write(*rows[::2], subtask=0)
        if crash is Crash.ONE_HAS_WRITTEN:
            return durable
        others = 1 % len(self._writers)
        self.write(*rows[1::2], subtask=others)
        if crash is Crash.ALL_HAVE_WRITTEN:
            return durable
        if crash is Crash.ONE_HAS_PREPARED:
            self._prepared(0, checkpoint_id)
            return durable
        snapshot = self.prepare(checkpoint_id)
        if crash is Crash.ALL_HAVE_PREPARED:
            return durable
        if crash is Crash.ONE_COMMIT_IS_DONE:
            self.commit(replace(snapshot, committables=snapshot.committables[:1]))
        elif crash is Crash.ALL_COMMITS_ARE_DONE:
            self.commit(snapshot)
        return snapshot

    def wake_up(self, snapshot: _Snapshot) -> None:
        """What a process does that was taken for dead: it commits what it has a permit for. It may be refused."""
        own = [entry for entry in snapshot.committables if f"/{self.number}/{entry.checkpoint_id}/" in entry.name]
        for index, entry in enumerate(own):
            try:
                self._commit_one(entry, index, snapshot.id)
            except Exception:  # noqa: S112  # refused, as it may be
                continue

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        if self._committer is not None:
            self._committer.close()


def _committed(commit: Any, entry: Committable, permit: Permit) -> CommitResult:
    """Commit, with retries and with the payloads that the sink asks for instead."""
    for number in range(_MAX_TRIES):
        result: CommitResult | RetryWith = commit(entry, permit)
        if isinstance(result, RetryWith):
            entry = replace(entry, payload=_travelled([result.payload])[0])
        elif result is not CommitResult.RETRY_LATER or number == _MAX_TRIES - 1:
            return result
        else:
            time.sleep(min(0.005 * 2**number, 0.5))
    raise AssertionError(f"commit() of {entry.name} asked for another payload {_MAX_TRIES} times")


def _travelled(data: Sequence[Any]) -> list[Any]:
    decoded: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(list(data)))
    return decoded


def _said(crash: Crash) -> str:
    return crash.name.lower().replace("_", " ")


def _shown(numbers: list[int]) -> str:
    return f"{len(numbers)} rows" if len(numbers) > 10 else f"the rows {numbers}"

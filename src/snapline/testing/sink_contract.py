"""The test suite that every committing sink has to pass: nothing is visible before its commit, and each row is once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pyarrow as pa

from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith, Sink, SinkContext

_PERMIT = Permit(9, 99)
_MAX_REPLACEMENTS = 10
_DONE = (CommitResult.COMMITTED, CommitResult.ALREADY_COMMITTED)


class SinkContract(ABC):
    """Subclass it in a pytest module, with a name that starts with `Test`, and give it your sink:

        class TestLedger(SinkContract):
            def make_sink(self, directory: Path) -> Sink:
                return Ledger(directory / "ledger.db")

            def visible_numbers(self, directory: Path) -> list[int]:
                return read_ledger(directory / "ledger.db")["x"].to_pylist()

    Each test makes a sink of its own, writes with writers of one or several attempts, as tasks do, and looks at what
    everybody outside can see. Rows have one column, `x`, of whole numbers; override `batch` if your sink needs others.
    """

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
        writer = self._start(tmp_path)
        writer.write(1, 2)
        writer.write(3)
        self._check(tmp_path, [], "after write()")
        prepared = writer.prepare(1)
        writer.write(4)
        self._check(tmp_path, [], "after prepare()")
        writer.commit(prepared)
        self._check(tmp_path, [1, 2, 3], "after commit()")
        writer.commit(writer.prepare(2))
        self._check(tmp_path, [1, 2, 3, 4], "after the second commit()")
        writer.close()

    def test_without_rows_there_is_nothing_to_commit(self, tmp_path: Path) -> None:
        """`prepare` then returns nothing."""
        writer = self._start(tmp_path)
        prepared = writer.prepare(1)
        if prepared:
            raise AssertionError(f"prepare() without rows must return nothing, and returns {prepared}")
        writer.close()
        self._check(tmp_path, [], "after prepare() without rows")

    def test_a_second_commit_changes_nothing(self, tmp_path: Path) -> None:
        """By the same process, or by another that was restored."""
        writer = self._start(tmp_path)
        writer.write(1)
        prepared = writer.prepare(1)
        writer.commit(prepared)
        writer.commit(prepared)
        other = self._writer(attempt=2, subtask=1)
        other.abort_newer(1)
        self._check(tmp_path, [1], "after abort_newer(), which must leave what is committed")
        other.commit(prepared)
        self._check(tmp_path, [1], "after committing three times")
        writer.close()
        other.close()

    def test_a_restored_writer_commits_what_was_prepared_and_drops_the_rest(self, tmp_path: Path) -> None:
        """The first writer dies behind checkpoint 1, and another goes on from there."""
        dead = self._start(tmp_path)
        dead.write(1)
        first = dead.prepare(1)
        dead.write(2)
        dead.prepare(2)
        dead.write(3)
        after = self._writer(attempt=2)
        after.abort_newer(1)
        after.commit(first)
        self._check(tmp_path, [1], "after a restore from checkpoint 1")
        after.write(2, 3)
        after.commit(after.prepare(2))
        self._check(tmp_path, [1, 2, 3], "after the rows were written again")
        dead.close()
        after.close()
        self._check(tmp_path, [1, 2, 3], "after the dead writer was closed")

    def test_rows_that_are_not_prepared_end_with_their_writer(self, tmp_path: Path) -> None:
        """They will be written again by the next attempt."""
        writer = self._start(tmp_path)
        writer.write(*range(1000))
        writer.write(1000)
        writer.close()
        self._check(tmp_path, [], "after close()")
        after = self._writer(attempt=2)
        after.abort_newer(-1)
        after.write(5)
        after.commit(after.prepare(1))
        self._check(tmp_path, [5], "after the next attempt")
        after.close()

    def test_subtasks_write_side_by_side(self, tmp_path: Path) -> None:
        """Five thousand rows each."""
        writers = [self._start(tmp_path), self._writer(subtask=1)]
        for writer, start in zip(writers, (0, 5000), strict=True):
            for part in range(start, start + 5000, 1000):
                writer.write(*range(part, part + 1000))
            writer.commit(writer.prepare(1))
            writer.close()
        self._check(tmp_path, list(range(10_000)), "after the commits of two subtasks")

    def _start(self, directory: Path) -> _Writer:
        """The first writer of a job that starts."""
        self.sink = self.make_sink(directory)
        self.sink.check(self.batch([]).schema)
        self.sink.check_access()
        self._check(directory, [], "after check_access()")
        self.sink.starting("job")
        return self._writer()

    def _writer(self, attempt: int = 1, subtask: int = 0) -> _Writer:
        return _Writer(self, attempt, subtask)

    def _check(self, directory: Path, expected: list[int], when: str) -> None:
        found = sorted(self.visible_numbers(directory))
        if found != expected:
            raise AssertionError(f"{when}: {_shown(expected)} must be visible, and {_shown(found)} are")


class _Writer:
    """One subtask of one attempt. The sink is pickled on its way to it, and so is everything prepared."""

    def __init__(self, contract: SinkContract, attempt: int, subtask: int) -> None:
        sink: Sink = cloudpickle.loads(cloudpickle.dumps(contract.sink))
        self._made = sink.writer(SinkContext("job", "out", subtask, 2, attempt))
        self._contract = contract
        self._prefix = f"job/out/{subtask}/{attempt}"
        self.abort_newer = self._made.abort_newer
        self.close = self._made.close

    def write(self, *numbers: int) -> None:
        self._made.write(self._contract.batch(numbers))

    def prepare(self, checkpoint_id: int) -> list[Committable]:
        payloads: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(list(self._made.prepare(checkpoint_id))))
        return [
            Committable(f"{self._prefix}/{checkpoint_id}/{number}", checkpoint_id, payload)
            for number, payload in enumerate(payloads)
        ]

    def commit(self, committables: list[Committable]) -> None:
        for entry in committables:
            result = self._commit(entry)
            if result not in _DONE:
                raise AssertionError(f"commit() of {entry.payload!r} gave {result}")

    def _commit(self, entry: Committable) -> CommitResult:
        """Commit, with the payloads that the sink asks for instead."""
        for _ in range(_MAX_REPLACEMENTS):
            result = self._made.commit(entry, _PERMIT)
            if not isinstance(result, RetryWith):
                return result
            (payload,) = msgspec.msgpack.decode(msgspec.msgpack.encode([result.payload]))
            entry = replace(entry, payload=payload)
        raise AssertionError(f"commit() of {entry.name} asked for another payload {_MAX_REPLACEMENTS} times")


def _shown(numbers: list[int]) -> str:
    return f"{len(numbers)} rows" if len(numbers) > 10 else f"the rows {numbers}"

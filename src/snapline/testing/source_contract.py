"""The test suite that every source has to pass: the same rows from any position, each once."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import pyarrow as pa

from snapline.contracts.dead_letters import OnError, checked_on_error
from snapline.contracts.source import BadRow, ReaderContext, Source, SplitRows, Wait, fail
from snapline.operators.split_assigner import SplitAssigner

READ_TIMEOUT_S = 60.0
"""How long reading to the end may take."""

_DRY_ROUNDS = 10
_RESTORES = 6
_LONGEST_PAUSE_S = 0.01


class SourceContract(ABC):
    """Subclass it in a pytest module, with a name that starts with `Test`, and give it your source:

        class TestOrders(SourceContract):
            def make_source(self, directory: Path) -> Source:
                write_orders(directory)
                return Orders(directory)

            def expected_rows(self) -> pa.Table:
                return orders()

    Each test makes a source of its own and reads it with several readers, as tasks do, from its beginning and from
    positions in the middle; the order of the rows does not matter. The more batches there are, the more positions are
    tried. An unbounded source counts as read once its readers have waited `quiet_s` in vain. Rows that readers report
    as bad fail the test, unless the source's `on_error` says otherwise.
    """

    quiet_s = 0.5

    @abstractmethod
    def make_source(self, directory: Path) -> Source:
        """A source that reads `expected_rows`. `directory` is empty, and its own."""

    @abstractmethod
    def expected_rows(self) -> pa.Table:
        """Every row of the source once, in any order."""

    def test_every_row_comes_once(self, tmp_path: Path) -> None:
        """At any parallelism, and nothing is left to read at the end."""
        source = self.make_source(tmp_path)
        for parallelism in (1, 2, 5):
            subtasks = _Subtasks(source, parallelism, self.quiet_s)
            self._check_rows(list(subtasks.read()), f"parallelism {parallelism}")
            if source.is_bounded:
                _check(subtasks.snapshot()[1] == [], "positions() must be empty once every split is read to its end")
            subtasks.close()

    def test_any_position_can_be_resumed(self, tmp_path: Path) -> None:
        """Readers that are restored go on behind the last row that was read."""
        source = self.make_source(tmp_path)
        subtasks = _Subtasks(source, 2, self.quiet_s)
        before: list[pa.RecordBatch] = []
        snapshots = [(0, subtasks.snapshot())]
        for batch in subtasks.read():
            before.append(batch)
            snapshots.append((len(before), subtasks.snapshot()))
        subtasks.close()
        for read, snapshot in snapshots[:: max(1, len(snapshots) // _RESTORES)]:
            again = _Subtasks(source, 2, self.quiet_s, snapshot)
            self._check_rows([*before[:read], *again.read()], f"restored behind batch {read}")
            again.close()

    def test_splits_can_move_to_more_or_fewer_subtasks(self, tmp_path: Path) -> None:
        """Positions that one subtask saved are good for any other."""
        source = self.make_source(tmp_path)
        for parallelism in (1, 3):
            first = _Subtasks(source, 2, self.quiet_s)
            before = list(islice(first.read(), 4))
            second = _Subtasks(source, parallelism, self.quiet_s, first.snapshot())
            before += list(islice(second.read(), 2))
            last = _Subtasks(source, 2, self.quiet_s, second.snapshot())
            self._check_rows([*before, *last.read()], f"restored with parallelism {parallelism}, then 2")
            for subtasks in (first, second, last):
                subtasks.close()

    def test_checkpoints_that_complete_or_abort_change_nothing(self, tmp_path: Path) -> None:
        """Readers hear of them later, and may commit positions outside; a restore goes on behind the last one."""
        source = self.make_source(tmp_path)
        subtasks, before = _Subtasks(source, 2, self.quiet_s), list[pa.RecordBatch]()
        kept = 0, subtasks.snapshot(1)
        for number, batch in enumerate(subtasks.read(), start=2):
            before.append(batch)
            snapshot = subtasks.snapshot(number)
            if number % 3:
                subtasks.completed(number)
                kept = len(before), snapshot
            else:
                subtasks.aborted(number)
        self._check_rows(before, "with checkpoints that complete and abort")
        subtasks.close()
        read, snapshot = kept
        again = _Subtasks(source, 2, self.quiet_s, snapshot)
        self._check_rows([*before[:read], *again.read()], "restored from the last checkpoint that completed")
        again.close()

    def test_a_reader_that_was_taken_for_dead_takes_no_rows_away(self, tmp_path: Path) -> None:
        """It reads on, and hears of its checkpoint, while the readers of the next attempt read the same splits."""
        source = self.make_source(tmp_path)
        dead = _Subtasks(source, 2, self.quiet_s)
        reading = dead.read()
        before = list(islice(reading, 2))
        snapshot = dead.snapshot(1)
        after, rows = _Subtasks(source, 2, self.quiet_s, snapshot), list[pa.RecordBatch]()
        for batch in after.read():
            rows.append(batch)
            next(reading, None)
            dead.completed(1)
        self._check_rows([*before, *rows], "beside readers of the attempt before")
        dead.close()
        after.close()

    def test_the_source_can_be_pickled(self, tmp_path: Path) -> None:
        """It travels with the job."""
        source = cloudpickle.loads(cloudpickle.dumps(self.make_source(tmp_path)))
        subtasks = _Subtasks(source, 1, self.quiet_s)
        self._check_rows(list(subtasks.read()), "pickled")
        subtasks.close()

    def _check_rows(self, batches: list[pa.RecordBatch], when: str) -> None:
        expected = self.expected_rows()
        wanted = Counter(map(repr, expected.to_pylist()))
        found = Counter(map(repr, pa.Table.from_batches(batches, expected.schema).to_pylist()))
        for what, rows in (("are missing", wanted - found), ("came too often", found - wanted)):
            _check(not rows, f"{when}: {rows.total()} rows {what}, such as {next(iter(rows), None)}")


class _Subtasks:
    """The readers of a source, with splits as a driver assigns them and positions as a checkpoint keeps them."""

    def __init__(
        self, source: Source, parallelism: int, quiet_s: float, snapshot: tuple[Any, list[bytes]] | None = None
    ) -> None:
        self._assigner = SplitAssigner(source, parallelism)
        may_fail = checked_on_error(source.on_error, "the source") is OnError.FAIL
        bad_row = fail if may_fail else _skip
        self._readers = [source.reader(ReaderContext("job", "it", i, parallelism, bad_row)) for i in range(parallelism)]
        self._ended: set[int] = set()
        self._is_bounded = source.is_bounded
        self._schema = source.schema
        self._quiet_s = quiet_s
        if snapshot is None:
            self._assigner.start()
        else:
            self._assigner.restore(snapshot[0])
            for number, entry in enumerate(snapshot[1]):
                self._readers[number % parallelism].add_split(*msgspec.msgpack.decode(entry))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Batches of all subtasks in turn, to the end; of an unbounded source until there are no more."""
        deadline_s = time.monotonic() + READ_TIMEOUT_S
        waited_s, dry_rounds = 0.0, 0
        while dry_rounds < _DRY_ROUNDS:
            dry_rounds += 1
            for subtask, reader in enumerate(self._readers):
                given = reader.read()
                if given is None:
                    self._ask(subtask)
                elif isinstance(given, Wait):
                    pause_s = min(given.seconds, _LONGEST_PAUSE_S)
                    time.sleep(pause_s)
                    waited_s += pause_s
                    # A wait of 0 is work that goes on.
                    if self._is_bounded or pause_s == 0 or waited_s < self._quiet_s:
                        dry_rounds = 0
                else:
                    if isinstance(given, SplitRows):
                        _check(
                            sum(rows for _, rows in given.runs) == given.batch.num_rows,
                            "the runs of SplitRows must add up to the rows of its batch",
                        )
                        given = given.batch
                    assert isinstance(given, pa.RecordBatch)
                    _check(given.schema == self._schema, f"a batch has the schema {given.schema}, not the source's own")
                    waited_s, dry_rounds = 0.0, 0
                    yield given
            _check(time.monotonic() < deadline_s, f"the source is not read to its end within {READ_TIMEOUT_S:g} s")
        if self._is_bounded:
            _check(len(self._ended) == len(self._readers), "read() gives None although a split is not read to its end")

    def _ask(self, subtask: int) -> None:
        for answered, event in self._assigner.assign(subtask):
            if "nothing" in event:
                continue  # it waits, and is asked again
            for split in event["splits"]:
                self._readers[answered].add_split(split, None)
            if not event["more"]:
                self._ended.add(answered)

    def completed(self, checkpoint_id: int) -> None:
        for reader in self._readers:
            reader.checkpoint_completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        for reader in self._readers:
            reader.checkpoint_aborted(checkpoint_id)

    def snapshot(self, checkpoint_id: int = 1) -> tuple[Any, list[bytes]]:
        entries = [entry for reader in self._readers for entry in reader.positions(checkpoint_id)]
        return self._assigner.snapshot(), [msgspec.msgpack.encode(entry) for entry in entries]

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def _skip(bad: BadRow) -> None:
    """The reader goes on behind the row."""


def _check(holds: bool, message: str) -> None:
    # Messages of their own: pytest explains an `assert` only in test modules.
    if not holds:
        raise AssertionError(message)

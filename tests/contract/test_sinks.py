"""What every sink that commits has to keep: nothing is final before its commit, and each row is once, whoever dies."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import cloudpickle
import msgspec
import pyarrow as pa
import pytest

import snapline as sl

SCHEMA = pa.schema([("x", pa.int64())])
PERMIT = sl.Permit(9, 99)


class Outside(Protocol):
    """A sink, and what everybody outside can see of its rows."""

    sink: sl.Sink

    def seen(self) -> list[int]: ...


class OfFiles:
    def __init__(self, directory: Path, format: str) -> None:
        self.sink: sl.Sink = sl.sinks.Files(directory / "out", format=format, max_file_size=200)
        self._directory = directory / "out"

    def seen(self) -> list[int]:
        table = sl.sinks.read_files(self._directory)
        return sorted(table.column("x").to_pylist()) if table.num_columns else []


class OfCollect:
    def __init__(self, directory: Path) -> None:
        self._collect = sl.sinks.Collect(directory / "out")
        self._collect.starting("job")
        self.sink: sl.Sink = self._collect

    def seen(self) -> list[int]:
        return sorted(self._collect.table().column("x").to_pylist())


class OnceById:
    """What a function outside may look like: it keeps the ids with the rows."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, table: pa.Table, commit_id: str) -> None:
        path = self._directory / commit_id.replace("/", "_")
        if not path.exists():
            path.write_bytes(msgspec.msgpack.encode(table.column("x").to_pylist()))


class OfForeachBatch:
    def __init__(self, directory: Path) -> None:
        self.sink: sl.Sink = sl.sinks.ForeachBatch(OnceById(directory))
        self._directory = directory

    def seen(self) -> list[int]:
        return sorted(x for path in self._directory.iterdir() for x in msgspec.msgpack.decode(path.read_bytes()))


SINKS: dict[str, Callable[[Path], Outside]] = {
    "parquet": lambda directory: OfFiles(directory, "parquet"),
    "csv": lambda directory: OfFiles(directory, "csv"),
    "jsonl": lambda directory: OfFiles(directory, "jsonl"),
    "arrow": lambda directory: OfFiles(directory, "arrow"),
    "collect": OfCollect,
    "foreach batch": OfForeachBatch,
}


@pytest.fixture(params=SINKS)
def outside(request: pytest.FixtureRequest, tmp_path: Path) -> Outside:
    made = SINKS[request.param](tmp_path)
    made.sink.check(SCHEMA)
    return made


class Writer:
    """One subtask of one attempt. Every sink is pickled on its way, and so is everything prepared."""

    def __init__(self, outside: Outside, attempt: int = 1, subtask: int = 0) -> None:
        sink: sl.Sink = pickle.loads(cloudpickle.dumps(outside.sink))
        self.made = sink.writer(sl.SinkContext("job", "out", subtask, 2, attempt))
        self._prefix = f"job/out/{subtask}/{attempt}"

    def write(self, *values: int) -> None:
        self.made.write(pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA))

    def prepare(self, checkpoint_id: int) -> list[sl.Committable]:
        payloads: list[Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(list(self.made.prepare(checkpoint_id))))
        return [
            sl.Committable(f"{self._prefix}/{checkpoint_id}/{number}", checkpoint_id, payload)
            for number, payload in enumerate(payloads)
        ]

    def commit(self, committables: list[sl.Committable]) -> None:
        done = (sl.CommitResult.COMMITTED, sl.CommitResult.ALREADY_COMMITTED)
        assert all(self.made.commit(entry, PERMIT) in done for entry in committables)


def test_rows_are_seen_after_their_commit(outside: Outside) -> None:
    writer = Writer(outside)
    writer.write(1, 2)
    writer.write(3)
    assert outside.seen() == []
    prepared = writer.prepare(1)
    writer.write(4)
    assert outside.seen() == []
    writer.commit(prepared)
    assert outside.seen() == [1, 2, 3]
    writer.commit(writer.prepare(2))
    assert outside.seen() == [1, 2, 3, 4]
    writer.made.close()


def test_no_rows_nothing_to_commit(outside: Outside) -> None:
    writer = Writer(outside)
    assert writer.prepare(1) == []
    writer.made.close()
    assert outside.seen() == []


def test_a_second_commit_changes_nothing(outside: Outside) -> None:
    writer = Writer(outside)
    writer.write(1)
    prepared = writer.prepare(1)
    writer.commit(prepared)
    writer.commit(prepared)
    other = Writer(outside, attempt=2, subtask=1)
    other.made.abort_newer(1)
    other.commit(prepared)
    assert outside.seen() == [1]
    writer.made.close()
    other.made.close()


def test_whoever_restores_commits_what_was_prepared_and_drops_the_rest(outside: Outside) -> None:
    dead = Writer(outside)
    dead.write(1)
    first = dead.prepare(1)
    dead.write(2)
    dead.prepare(2)
    dead.write(3)
    after = Writer(outside, attempt=2)
    after.made.abort_newer(1)
    after.commit(first)
    assert outside.seen() == [1]
    after.write(2, 3)
    after.commit(after.prepare(2))
    assert outside.seen() == [1, 2, 3]
    dead.made.close()
    after.made.close()
    assert outside.seen() == [1, 2, 3]


def test_what_is_not_prepared_goes_with_its_writer(outside: Outside) -> None:
    writer = Writer(outside)
    writer.write(*range(1000))
    writer.write(1000)
    writer.made.close()
    assert outside.seen() == []
    after = Writer(outside, attempt=2)
    after.made.abort_newer(-1)
    after.write(5)
    after.commit(after.prepare(1))
    assert outside.seen() == [5]
    after.made.close()


def test_subtasks_and_large_amounts(outside: Outside) -> None:
    writers = [Writer(outside, subtask=subtask) for subtask in range(2)]
    for writer, start in zip(writers, (0, 5000), strict=True):
        for part in range(start, start + 5000, 1000):
            writer.write(*range(part, part + 1000))
        writer.commit(writer.prepare(1))
        writer.made.close()
    assert outside.seen() == list(range(10_000))

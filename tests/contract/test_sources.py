"""What every source that comes with Snapline has to keep: the same rows from any position on, each once."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.operators.split_assigner import SplitAssigner

ROWS = 3000
SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])


def table(start: int = 0, count: int = ROWS) -> pa.Table:
    numbers = np.arange(start, start + count)
    texts = [None if number % 7 == 0 else f'row "{number}",\n{number}' for number in numbers.tolist()]
    return pa.table({"number": numbers, "text": pa.array(texts, pa.string())}, schema=SCHEMA)


def generated(start: int, count: int) -> pa.RecordBatch:
    return table(start, count).combine_chunks().to_batches()[0]


def rows_one_by_one() -> Iterator[Any]:
    yield from table().to_pylist()


def batches_and_rows() -> Iterator[Any]:
    yield from table(0, 10).to_pylist()
    yield from table(10, 1000).to_batches(max_chunksize=100)
    yield from (tuple(row.values()) for row in table(1010, ROWS - 1010).to_pylist())


def parquet_files(directory: Path) -> sl.Source:
    pq.write_table(table(0, 2000), directory / "a.parquet", row_group_size=300)
    pq.write_table(table(0, 0), directory / "b.parquet")
    pq.write_table(table(2000, 1000), directory / "c.parquet", row_group_size=1000)
    return sl.sources.Files(directory)


def csv_files(directory: Path) -> sl.Source:
    pyarrow.csv.write_csv(table(0, 2500), directory / "a.csv")
    (directory / "b.csv").touch()
    (directory / "c.csv").write_text("number,text\n")
    with gzip.open(directory / "d.csv.gz", "wb") as file:
        pyarrow.csv.write_csv(table(2500, 500), file)
    return sl.sources.Files(directory, format="csv")


def jsonl_files(directory: Path) -> sl.Source:
    for name, part in (("a", table(0, 2999)), ("b", table(0, 0)), ("c", table(2999, 1))):
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in part.to_pylist())
        (directory / f"{name}.jsonl").write_bytes(lines)
    return sl.sources.Files(f"{directory}/*.jsonl", format="jsonl", schema=SCHEMA)


def watched_files(directory: Path) -> sl.Source:
    parquet_files(directory)
    return sl.sources.Files(directory, watch="1s")


Make = Callable[[Path], sl.Source]
SOURCES: dict[str, Make] = {
    "generate": lambda _: sl.sources.Generate(generated, ROWS, schema=SCHEMA, splits=3, batch_rows=130),
    "list": lambda _: sl.sources.Iterator(table().to_pylist()),
    "tuples": lambda _: sl.sources.Iterator([tuple(row.values()) for row in table().to_pylist()], SCHEMA),
    "generator": lambda _: sl.sources.Iterator(rows_one_by_one, SCHEMA),
    "batches and rows": lambda _: sl.sources.Iterator(batches_and_rows, SCHEMA),
    "parquet": parquet_files,
    "csv": csv_files,
    "jsonl": jsonl_files,
    "watched": watched_files,
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sl.Source:
    """Many reads for few rows."""
    monkeypatch.setattr("snapline.connectors.iterator._BATCH_ITEMS", 170)
    monkeypatch.setattr("snapline.connectors.iterator._SKIP_ITEMS", 400)
    monkeypatch.setattr("snapline.connectors.files.file_formats._BATCH_ROWS", 170)
    monkeypatch.setattr("snapline.connectors.files.file_formats._BLOCK_BYTES", 5000)
    return SOURCES[request.param](tmp_path)


class Subtasks:
    """The readers of a source, with splits as a driver deals them out and positions as a checkpoint keeps them."""

    def __init__(self, source: sl.Source, parallelism: int, snapshot: tuple[bytes, list[bytes]] | None = None) -> None:
        self._assigner = SplitAssigner(source, parallelism)
        self._readers = [source.reader(sl.ReaderContext("job", "it", i, parallelism)) for i in range(parallelism)]
        self._ended: set[int] = set()
        self._is_bounded = source.is_bounded
        self._schema = source.schema
        if snapshot is None:
            self._assigner.start()
        else:
            self._assigner.restore(snapshot[0])
            for number, entry in enumerate(snapshot[1]):
                self._readers[number % parallelism].add_split(*msgspec.msgpack.decode(entry))

    def read(self) -> Iterator[pa.RecordBatch]:
        """Batches of all subtasks in turn, up to the end, or of a source that has none to where there are no more."""
        rounds_without = 0
        while rounds_without < 10:
            rounds_without += 1
            for subtask, reader in enumerate(self._readers):
                given = reader.read()
                while isinstance(given, sl.Wait):
                    given = reader.read()
                if given is None:
                    self._ask(subtask)
                else:
                    assert given.schema == self._schema
                    rounds_without = 0
                    yield given
        assert len(self._ended) == (len(self._readers) if self._is_bounded else 0)

    def _ask(self, subtask: int) -> None:
        for answered, event in self._assigner.assign(subtask):
            for split in event["splits"]:
                self._readers[answered].add_split(split, None)
            if not event["more"]:
                self._ended.add(answered)

    def snapshot(self) -> tuple[bytes, list[bytes]]:
        entries = [entry for reader in self._readers for entry in reader.positions()]
        return self._assigner.snapshot(), [msgspec.msgpack.encode(entry) for entry in entries]

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


def same_rows(batches: list[pa.RecordBatch]) -> None:
    found = pa.Table.from_batches(batches, SCHEMA).sort_by("number")
    assert found.equals(table())


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_every_row_comes_once(source: sl.Source, parallelism: int) -> None:
    subtasks = Subtasks(source, parallelism)
    same_rows(list(subtasks.read()))
    assert subtasks.snapshot()[1] == []
    subtasks.close()


def test_any_position_can_be_gone_on_from(source: sl.Source) -> None:
    subtasks = Subtasks(source, 2)
    before: list[pa.RecordBatch] = []
    snapshots = [(0, subtasks.snapshot())]
    for batch in subtasks.read():
        before.append(batch)
        snapshots.append((len(before), subtasks.snapshot()))
    for read, snapshot in snapshots[:: max(1, len(snapshots) // 6)]:
        again = Subtasks(source, 2, snapshot)
        same_rows([*before[:read], *again.read()])
        again.close()
    subtasks.close()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_splits_can_go_to_more_or_fewer_subtasks(source: sl.Source, parallelism: int) -> None:
    subtasks = Subtasks(source, 2)
    reading = subtasks.read()
    before = [next(reading) for _ in range(4)]
    after = Subtasks(source, parallelism, subtasks.snapshot())
    middle = after.read()
    before += [next(middle) for _ in range(2)]
    last = Subtasks(source, 2, after.snapshot())
    same_rows([*before, *last.read()])
    for group in (subtasks, after, last):
        group.close()


def test_a_source_travels_with_the_job(source: sl.Source) -> None:
    subtasks = Subtasks(pickle.loads(cloudpickle.dumps(source)), 1)
    same_rows(list(subtasks.read()))
    subtasks.close()

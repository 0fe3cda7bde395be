"""Generate: the same rows whoever reads them, in blocks dealt to splits, at the given rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.generate import GenerateReader
from snapline.connectors.rate import SCHEMA, Rate, RateRows, Sequence
from snapline.contracts.source import ReaderContext
from snapline.errors import RestoreError, UserCodeError

CONTEXT = ReaderContext("job", "rate", 0, 1)


def read_all(reader: sl.SourceReader) -> list[pa.RecordBatch]:
    batches = []
    while (batch := reader.read()) is not None:
        assert isinstance(batch, pa.RecordBatch)
        batches.append(batch)
    return batches


def reader_of(source: sl.Source) -> sl.SourceReader:
    reader = source.reader(CONTEXT)
    for split in source.splits(1):
        reader.add_split(split, None)
    return reader


def starts(reader: sl.SourceReader, reads: int) -> list[int]:
    batches: list[Any] = [reader.read() for _ in range(reads)]
    return [batch.column(0)[0].as_py() for batch in batches]


def test_a_split_has_every_nth_block() -> None:
    source = Sequence(0, 100, splits=4, batch_rows=10)
    assert source.in_step
    reader = source.reader(CONTEXT)
    reader.add_split(source.splits(1)[1], None)
    assert starts(reader, 3) == [10, 50, 90]
    assert reader.read() is None


def test_a_reader_of_several_splits_takes_the_lowest_rows_first() -> None:
    reader = reader_of(Sequence(0, None, splits=3, batch_rows=5))
    assert starts(reader, 6) == [0, 5, 10, 15, 20, 25]
    behind = Sequence(0, None, splits=3, batch_rows=5).reader(CONTEXT)
    for split, position in zip(Sequence(0, splits=3, batch_rows=5).splits(1), (12, 0, 7), strict=True):
        behind.add_split(split, position)
    assert starts(behind, 5) == [5, 20, 27, 32, 35]


def test_a_new_setting_does_not_change_the_splits_of_a_snapshot() -> None:
    before = reader_of(Sequence(0, 1000, splits=3, batch_rows=7))
    taken: list[Any] = [before.read() for _ in range(5)]
    after = Sequence(0, 1000, splits=8, batch_rows=100).reader(CONTEXT)
    for split, position in before.positions(1):
        after.add_split(split, position)
    values = [value for batch in (*taken, *read_all(after)) for value in batch.column(0).to_pylist()]
    assert sorted(values) == list(range(1000))


def squares(start: int, count: int) -> pa.RecordBatch:
    return pa.record_batch({"square": pa.array(np.arange(start, start + count) ** 2)})


def test_a_function_makes_the_rows() -> None:
    source = sl.sources.Generate(squares, 10, schema=pa.schema([("square", pa.int64())]), batch_rows=4)
    assert [batch.column(0).to_pylist() for batch in read_all(reader_of(source))] == [
        [0, 1, 4, 9],
        [16, 25, 36, 49],
        [64, 81],
    ]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda start, count: squares(start, count + 1), "returned 11 rows for 10 rows from 0 on"),
        (lambda _start, _count: None, "returned a NoneType for 10 rows"),
        (lambda _start, count: pa.record_batch({"x": [1] * count}), "gave a batch without 'square' and with 'x'"),
    ],
)
def test_what_a_function_returns_is_checked(function: Any, complaint: str) -> None:
    source = sl.sources.Generate(function, 80, schema=pa.schema([("square", pa.int64())]))
    with pytest.raises(UserCodeError, match=complaint):
        reader_of(source).read()


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def paced(
    clock: Clock, rate: float, splits: int = 1, rows: int | None = None, batch_rows: int | None = None
) -> GenerateReader:
    function = RateRows(10, lambda: 1.7e9)
    reader = GenerateReader(function, SCHEMA, rows, rate, clock)
    for split in Rate(rate, rows=rows, splits=splits, batch_rows=batch_rows).splits(1):
        reader.add_split(split, None)
    return reader


def test_rows_come_by_their_number_also_at_a_rate_and_if_a_split_is_ahead() -> None:
    clock = Clock()
    reader = GenerateReader(RateRows(10, lambda: 1.7e9), SCHEMA, 400, 300, clock)
    for split, position in zip(Rate(300, rows=400, splits=4, batch_rows=20).splits(1), [0, 0, 70, 0], strict=True):
        reader.add_split(split, position)
    numbers: list[int] = []
    while (given := reader.read()) is not None:
        if isinstance(given, sl.Wait):
            clock.now_s += given.seconds
        else:
            numbers += given.column("id").to_pylist()
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 400 - 70


@pytest.mark.parametrize("rate", [0.5, 3, 1000, 123_456.7])
@pytest.mark.parametrize("splits", [1, 4])
def test_rows_come_at_the_given_rate(rate: float, splits: int) -> None:
    clock = Clock()
    reader = paced(clock, rate, splits)
    seconds = max(2.0, 100 / rate)
    rows = reads = 0
    while clock.now_s < 100 + seconds:
        given = reader.read()
        if isinstance(given, sl.Wait):
            assert given.seconds > 0
            clock.now_s += given.seconds
        else:
            assert given is not None
            rows += given.num_rows
            reads += 1
    assert rows == pytest.approx(rate * seconds, abs=splits * max(1.5, rate / splits * 0.02))
    # A high rate comes in batches, not row by row.
    assert reads <= splits * (min(seconds * 210, seconds * rate) + 2)


def test_rows_that_fell_due_between_reads_are_not_lost() -> None:
    clock = Clock()
    reader = paced(clock, 1000, batch_rows=1000)
    rows = 0
    reader.read()
    for _ in range(500):
        clock.now_s += 0.0157
        given = reader.read()
        rows += given.num_rows if isinstance(given, pa.RecordBatch) else 0
    assert rows == pytest.approx(500 * 15.7, abs=16)


def test_a_reader_that_was_held_up_does_not_catch_up_with_all_of_it() -> None:
    clock = Clock()
    reader = paced(clock, 100, batch_rows=1000)
    reader.read()
    clock.now_s += 1000
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 101
    assert isinstance(reader.read(), sl.Wait)


def test_the_last_rows_do_not_wait_for_a_full_batch() -> None:
    clock = Clock()
    reader = paced(clock, 1000, rows=3, batch_rows=1000)
    wait = reader.read()
    assert isinstance(wait, sl.Wait)
    assert wait.seconds == pytest.approx(0.003)
    clock.now_s += wait.seconds
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 3
    assert [value.timestamp() for value in batch.column("time").to_pylist()] == [1.7e9] * 3
    assert reader.read() is None


@pytest.mark.parametrize("split", [{"first": 3, "step": 2, "block": 1}, {"first": 0}, "file", [0, None]])
def test_a_split_of_something_else_is_refused(split: Any) -> None:
    with pytest.raises(RestoreError, match="not a split of Generate"):
        Rate().reader(CONTEXT).add_split(split, None)


def test_there_is_one_split_per_subtask_by_default() -> None:
    assert Rate().splits(2) == [{"first": 0, "step": 2, "block": 32_768}, {"first": 1, "step": 2, "block": 32_768}]
    assert len(Rate(splits=5).splits(3)) == 5


@pytest.mark.parametrize(
    ("options", "splits", "block"),
    [
        ({}, 1, 32_768),
        ({"rows": 16}, 4, 1),
        ({"rows": 100_000}, 4, 3125),
        ({"rows_per_second": 10}, 2, 1),
        ({"rows_per_second": 10_000}, 2, 50),
        ({"rows_per_second": 1e9}, 2, 32_768),
        ({"rows": 16, "batch_rows": 500}, 4, 500),
    ],
)
def test_blocks_are_large_flat_out_and_small_when_rows_are_few_or_slow(
    options: dict[str, Any], splits: int, block: int
) -> None:
    assert {split["block"] for split in Rate(**options).splits(splits)} == {block}

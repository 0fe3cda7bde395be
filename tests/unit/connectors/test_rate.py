"""Streams that a function makes, and Rate and Sequence: the same rows whoever reads them, at the rate asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.generate import GenerateReader
from snapline.connectors.rate import SCHEMA, Rate, RateRows, Sequence
from snapline.contracts.source import ReaderContext
from snapline.errors import ConfigurationError, RestoreError, UserCodeError

CONTEXT = ReaderContext("job", "rate", 0, 1)


def read_all(reader: sl.SourceReader) -> list[pa.RecordBatch]:
    batches = []
    while (batch := reader.read()) is not None:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.num_rows
        batches.append(batch)
    return batches


def rows_of(batches: list[pa.RecordBatch]) -> dict[int, tuple[str, int]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    by_id = {row["id"]: (row["user"], row["value"]) for row in rows}
    assert len(by_id) == len(rows), "an id came twice"
    return by_id


def reader_of(source: sl.Source, parallelism: int = 1) -> sl.SourceReader:
    reader = source.reader(CONTEXT)
    for split in source.splits(parallelism):
        reader.add_split(split, None)
    return reader


def all_rows(source: Rate, parallelism: int = 1) -> dict[int, tuple[str, int]]:
    return rows_of(read_all(reader_of(source, parallelism)))


def starts(reader: sl.SourceReader, reads: int) -> list[int]:
    batches: list[Any] = [reader.read() for _ in range(reads)]
    return [batch.column(0)[0].as_py() for batch in batches]


@pytest.mark.parametrize("splits", [1, 3, 7, 200])
@pytest.mark.parametrize("rows", [0, 1, 100])
@pytest.mark.parametrize("batch_rows", [None, 13])
def test_every_id_comes_once_and_its_content_does_not_depend_on_the_splits(
    splits: int, rows: int, batch_rows: int | None
) -> None:
    found = all_rows(Rate(rows=rows, users=10, splits=splits, batch_rows=batch_rows))
    assert sorted(found) == list(range(rows))
    assert found == all_rows(Rate(rows=rows, users=10), parallelism=2)


def test_content_never_changes_from_one_version_to_the_next() -> None:
    found = all_rows(Rate(rows=4, users=1000))
    assert list(found.values()) == [("user-0", 0), ("user-753", 59), ("user-243", 83), ("user-103", 47)]
    far = RateRows(1000)(10**15, 3)
    assert far.schema == SCHEMA
    assert far.column("user").to_pylist() == ["user-755", "user-20", "user-281"]
    assert far.column("value").to_pylist() == [37, 84, 61]


def test_there_are_as_many_splits_as_subtasks_unless_said_else() -> None:
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


def test_users_and_values_are_spread() -> None:
    found = all_rows(Rate(rows=20_000, users=50))
    users, values = Counter(user for user, _ in found.values()), Counter(value for _, value in found.values())
    assert len(users) == 50
    assert 300 < min(users.values()) <= max(users.values()) < 500
    assert sorted(values) == list(range(100))


def test_what_is_expected_is_what_comes() -> None:
    source = Rate(rows=5000, users=37)
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for user, value in all_rows(source).values():
        counts[user] += 1
        sums[user] += value
    assert source.expected_counts() == counts
    assert source.expected_sums() == sums
    assert set(Rate(rows=2, users=1000).expected_counts().values()) == {1}
    with pytest.raises(ConfigurationError, match="never ends"):
        Rate().expected_counts()


def test_only_a_source_with_rows_ends() -> None:
    assert Rate(rows=5).is_bounded
    endless = Rate(batch_rows=10)
    assert not endless.is_bounded
    reader = endless.reader(CONTEXT)
    reader.add_split({"first": 0, "step": 1, "block": 10}, 10**12)
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("id").to_pylist() == list(range(10**12, 10**12 + 10))


# Blocks.


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
    for split, position in before.positions():
        after.add_split(split, position)
    values = [value for batch in (*taken, *read_all(after)) for value in batch.column(0).to_pylist()]
    assert sorted(values) == list(range(1000))


def test_numbers_go_up_or_down() -> None:
    def values(source: Sequence) -> list[int]:
        return [value for batch in read_all(reader_of(source)) for value in batch.column("value").to_pylist()]

    assert values(Sequence(3, 20, 4)) == [3, 7, 11, 15, 19]
    assert values(Sequence(5, -5, -3)) == [5, 2, -1, -4]
    assert values(Sequence(5, 5)) == []
    assert not Sequence(5).is_bounded


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
        (lambda start, count: squares(start, count + 1), "gave 11 rows for 10 rows from 0 on"),
        (lambda _start, _count: None, "gave a NoneType for 10 rows"),
        (lambda _start, count: pa.record_batch({"x": [1] * count}), "gave a batch without 'square' and with 'x'"),
    ],
)
def test_what_a_function_gives_is_checked(function: Any, complaint: str) -> None:
    source = sl.sources.Generate(function, 80, schema=pa.schema([("square", pa.int64())]))
    with pytest.raises(UserCodeError, match=complaint):
        reader_of(source).read()


# Rates.


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
def test_rows_come_at_the_rate_that_was_asked_for(rate: float, splits: int) -> None:
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


def test_rows_that_were_due_while_nobody_asked_are_not_lost() -> None:
    clock = Clock()
    reader = paced(clock, 1000, batch_rows=1000)
    rows = 0
    reader.read()
    for _ in range(500):
        clock.now_s += 0.0157
        given = reader.read()
        rows += given.num_rows if isinstance(given, pa.RecordBatch) else 0
    assert rows == pytest.approx(500 * 15.7, abs=16)


def test_who_was_held_up_does_not_make_up_for_all_of_it() -> None:
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


# Wrong use.


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rows_per_second": 0}, "rows_per_second=0"),
        ({"rows_per_second": float("nan")}, "rows_per_second=nan"),
        ({"rows_per_second": "5"}, "rows_per_second='5'"),
        ({"rows": -1}, "rows=-1: use a whole number from 0"),
        ({"users": 0}, "users=0: use a whole number from 1"),
        ({"splits": 0}, "splits=0"),
        ({"batch_rows": 1.5}, "batch_rows=1.5"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Rate(**options)


def test_wrong_sequences_and_functions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="step=0"):
        Sequence(0, 10, 0)
    with pytest.raises(ConfigurationError, match=r"end=1\.5"):
        Sequence(0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give a function"):
        sl.sources.Generate(3, schema=SCHEMA)  # type: ignore[arg-type]


@pytest.mark.parametrize("split", [{"first": 3, "step": 2, "block": 1}, {"first": 0}, "file", [0, None]])
def test_a_split_of_something_else_is_refused(split: Any) -> None:
    with pytest.raises(RestoreError, match="no split of a stream that a function makes"):
        Rate().reader(CONTEXT).add_split(split, None)

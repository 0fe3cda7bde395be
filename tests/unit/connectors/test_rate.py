"""Rate: the same rows whoever reads them, at the rate that was asked for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.api.source import ReaderContext
from snapline.connectors.rate import SCHEMA, Rate, RateReader
from snapline.errors import ConfigurationError, RestoreError

CONTEXT = ReaderContext("job", "rate", 0, 1)


def read_all(reader: sl.SourceReader) -> list[pa.RecordBatch]:
    batches = []
    while (batch := reader.read()) is not None:
        assert isinstance(batch, pa.RecordBatch)
        assert batch.schema == SCHEMA
        batches.append(batch)
    return batches


def rows_of(batches: list[pa.RecordBatch]) -> dict[int, tuple[str, int]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    by_id = {row["id"]: (row["user"], row["value"]) for row in rows}
    assert len(by_id) == len(rows), "an id came twice"
    return by_id


def all_rows(source: Rate, parallelism: int = 1) -> dict[int, tuple[str, int]]:
    reader = source.reader(CONTEXT)
    for split in source.splits(parallelism):
        reader.add_split(split, None)
    return rows_of(read_all(reader))


@pytest.mark.parametrize("splits", [1, 3, 7, 200])
@pytest.mark.parametrize("rows", [0, 1, 100])
def test_every_id_comes_once_and_its_content_does_not_depend_on_the_splits(splits: int, rows: int) -> None:
    found = all_rows(Rate(rows=rows, users=10, splits=splits, batch_rows=13))
    assert sorted(found) == list(range(rows))
    assert found == all_rows(Rate(rows=rows, users=10), parallelism=2)


def test_content_never_changes_from_one_version_to_the_next() -> None:
    found = all_rows(Rate(rows=4, users=1000))
    assert list(found.values()) == [("user-0", 0), ("user-753", 59), ("user-243", 83), ("user-103", 47)]


def test_there_are_as_many_splits_as_subtasks_unless_said_else() -> None:
    assert Rate().splits(3) == [{"first": 0, "step": 3}, {"first": 1, "step": 3}, {"first": 2, "step": 3}]
    assert len(Rate(splits=5).splits(3)) == 5


def test_users_and_values_are_spread() -> None:
    found = all_rows(Rate(rows=20_000, users=50))
    users, values = Counter(user for user, _ in found.values()), Counter(value for _, value in found.values())
    assert len(users) == 50
    assert 300 < min(users.values()) <= max(users.values()) < 500
    assert sorted(values) == list(range(100))


def test_a_reader_goes_on_from_its_positions() -> None:
    source = Rate(rows=1000, users=10, splits=3, batch_rows=70)
    first = source.reader(CONTEXT)
    for split in source.splits(1):
        first.add_split(split, None)
    before = [first.read() for _ in range(5)]
    positions = list(first.positions())
    first.read()
    second = source.reader(CONTEXT)
    for split, position in positions:
        second.add_split(split, position)
    batches: Any = [*before, *read_all(second)]
    assert rows_of(batches) == all_rows(source)
    assert second.positions() == []


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
    reader.add_split({"first": 0, "step": 1}, 10**12)
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.column("id").to_pylist() == list(range(10**12, 10**12 + 10))


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def paced(clock: Clock, rate: float, splits: int = 1, rows: int | None = None, batch_rows: int = 1000) -> RateReader:
    reader = RateReader(rate, rows, 10, batch_rows, 1000, clock, lambda: 1.7e9)
    for first in range(splits):
        reader.add_split({"first": first, "step": splits}, None)
    return reader


@pytest.mark.parametrize("rate", [0.5, 3, 1000, 123_456.7])
@pytest.mark.parametrize("splits", [1, 4])
def test_rows_come_at_the_rate_that_was_asked_for(rate: float, splits: int) -> None:
    clock = Clock()
    reader = paced(clock, rate, splits, batch_rows=100_000)
    seconds = max(2.0, 100 / rate)
    rows = waits = 0
    while clock.now_s < 100 + seconds:
        given = reader.read()
        if isinstance(given, sl.Wait):
            assert given.seconds > 0
            clock.now_s += given.seconds
            waits += 1
        else:
            assert given is not None
            rows += given.num_rows
    assert rows == pytest.approx(rate * seconds, abs=splits * max(1.5, rate / splits * 0.02))
    # A high rate comes in batches, not row by row.
    assert waits <= splits * (min(seconds * 100, seconds * rate) + 2)


def test_rows_that_were_due_while_nobody_asked_are_not_lost() -> None:
    clock = Clock()
    reader = paced(clock, 1000)
    rows = 0
    reader.read()
    for _ in range(500):
        clock.now_s += 0.0157
        given = reader.read()
        rows += given.num_rows if isinstance(given, pa.RecordBatch) else 0
    assert rows == pytest.approx(500 * 15.7, abs=16)


def test_splits_take_turns() -> None:
    reader = Rate(splits=3, batch_rows=5).reader(CONTEXT)
    for split in Rate(splits=3).splits(1):
        reader.add_split(split, None)
    batches: list[Any] = [reader.read() for _ in range(6)]
    assert [batch.column("id")[0].as_py() for batch in batches] == [0, 1, 2, 15, 16, 17]


def test_who_was_held_up_does_not_make_up_for_all_of_it() -> None:
    clock = Clock()
    reader = paced(clock, 100)
    reader.read()
    clock.now_s += 1000
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 101
    assert isinstance(reader.read(), sl.Wait)


def test_the_last_rows_do_not_wait_for_a_full_batch() -> None:
    clock = Clock()
    reader = paced(clock, 1000, rows=3)
    wait = reader.read()
    assert isinstance(wait, sl.Wait)
    assert wait.seconds == pytest.approx(0.003)
    clock.now_s += wait.seconds
    batch = reader.read()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 3
    assert [value.timestamp() for value in batch.column("time").to_pylist()] == [1.7e9] * 3
    assert reader.read() is None


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rows_per_second": 0}, "rows_per_second=0"),
        ({"rows_per_second": float("nan")}, "rows_per_second=nan"),
        ({"rows": -1}, "rows=-1: use a whole number from 0"),
        ({"users": 0}, "users=0: use a whole number from 1"),
        ({"splits": 0}, "splits=0"),
        ({"batch_rows": 1.5}, "batch_rows=1.5"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Rate(**options)


def test_a_split_of_something_else_is_refused() -> None:
    with pytest.raises(RestoreError, match="no split of Rate"):
        Rate().reader(CONTEXT).add_split({"first": 3, "step": 2}, None)


def test_splits_that_end_are_read_one_at_a_time_and_keep_the_rate_together() -> None:
    clock = Clock()
    reader = RateReader(1000, 8000, 10, 100_000, 2, clock, lambda: 1.7e9)
    reader.add_split({"first": 0, "step": 8}, None)
    rows = 0
    while clock.now_s < 101:
        given = reader.read()
        if isinstance(given, sl.Wait):
            clock.now_s += given.seconds
        else:
            assert given is not None
            rows += given.num_rows
    assert rows == pytest.approx(500, abs=15), "one of two subtasks"

"""Rate and Sequence: rows of known content."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.rate import SCHEMA, Rate, RateRows, Sequence
from snapline.contracts.source import ReaderContext
from snapline.errors import ConfigurationError

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


def test_numbers_go_up_or_down() -> None:
    def values(source: Sequence) -> list[int]:
        return [value for batch in read_all(reader_of(source)) for value in batch.column("value").to_pylist()]

    assert values(Sequence(3, 20, 4)) == [3, 7, 11, 15, 19]
    assert values(Sequence(5, -5, -3)) == [5, 2, -1, -4]
    assert values(Sequence(5, 5)) == []
    assert not Sequence(5).is_bounded


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"rows_per_second": 0}, "rows_per_second=0"),
        ({"rows_per_second": float("nan")}, "rows_per_second=nan"),
        ({"rows_per_second": "5"}, "rows_per_second='5'"),
        ({"rows": -1}, "rows=-1: too small; use at least 0"),
        ({"users": 0}, "users=0: too small; use at least 1"),
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

"""Rows of generators as batches: of fitting size, and behind those that were read before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from snapline.connectors.data_source.given_rows import MAX_ROWS, GivenRows
from snapline.errors import UserCodeError

SCHEMA = pa.schema([("x", pa.int64())])


def to_batch(rows: list[Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([x for (x,) in rows], pa.int64())], schema=SCHEMA)


def read(rows: Any, skip: int = 0, tick_s: float = 0.0) -> list[list[int]]:
    clock = count()
    given = GivenRows(rows, SCHEMA, to_batch, "read()", skip, lambda: next(clock) * tick_s)
    found = []
    while (batch := given.next()) is not None:
        assert batch.schema == SCHEMA
        found.append(batch.column("x").to_pylist())
    return found


def test_batches_grow_up_to_a_limit_while_rows_come_fast() -> None:
    sizes = list(map(len, read((x,) for x in range(50_000))))
    assert sum(sizes) == 50_000
    assert sizes[:4] == [64, 256, 1024, 4096]
    assert max(sizes) == MAX_ROWS


def test_batches_of_slow_rows_shrink_to_single_rows() -> None:
    assert list(map(len, read(((x,) for x in range(90)), tick_s=1.0))) == [64, 16, 4, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("skip", [0, 1, 64, 65, 199, 200])
def test_rows_that_were_read_before_are_left_out(skip: int) -> None:
    rows = [x for part in read(((x,) for x in range(200)), skip) for x in part]
    assert rows == list(range(skip, 200))
    batches = [to_batch([(x,) for x in range(start, start + 50)]) for start in range(0, 200, 50)]
    assert [x for part in read(batches, skip) for x in part] == list(range(skip, 200))


def test_batches_are_made_to_fit_the_schema() -> None:
    assert read([pa.record_batch({"x": pa.array([1, 2], pa.int8())})]) == [[1, 2]]
    with pytest.raises(UserCodeError, match=r"read\(\) gave a batch without 'x' and with 'y'"):
        read([pa.record_batch({"y": [1]})])


@pytest.mark.parametrize(
    ("rows", "skip", "says"),
    [
        (None, 0, "gave None; it must give an iterator"),
        ([(1,)], 3, "ended 2 rows before the position"),
        ([to_batch([(1,)]), (2,)], 0, r"gave \(2,\) after a RecordBatch"),
    ],
)
def test_what_breaks_the_rules_is_an_error(rows: Any, skip: int, says: str) -> None:
    with pytest.raises(UserCodeError, match=says):
        read(rows, skip)


def test_a_generator_is_closed_in_the_middle() -> None:
    closed = []

    def rows() -> Iterator[Any]:
        try:
            for x in range(10**6):
                yield (x,)
        finally:
            closed.append(True)

    given = GivenRows(rows(), SCHEMA, to_batch, "read()")
    assert given.next() is not None
    given.close()
    assert closed == [True]

"""Rows of Python iterables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.iterator import IteratorReader
from snapline.errors import ConfigurationError, RestoreError, UserCodeError

CONTEXT = sl.ReaderContext("job", "rows", 0, 1)
X = pa.schema([("x", pa.int64()), ("y", pa.string())])


def read_all(source: sl.Source) -> list[dict[str, Any]]:
    reader = source.reader(CONTEXT)
    for split in source.splits(1):
        reader.add_split(split, None)
    rows: list[dict[str, Any]] = []
    while (given := reader.read()) is not None:
        if isinstance(given, pa.RecordBatch):
            rows += given.to_pylist()
    return rows


def test_a_list_is_shared_out_and_a_function_is_not() -> None:
    numbers = [{"x": number} for number in range(10)]
    assert sl.sources.Iterator(numbers).splits(3) == [[0, 3], [3, 6], [6, 10]]
    assert sl.sources.Iterator(numbers[:2]).splits(3) == [[0, 1], [1, 2]]
    assert sl.sources.Iterator([], X).splits(3) == []
    assert sl.sources.Iterator(lambda: numbers, X).splits(3) == [[0, None]]


def test_restored_parts_of_several_subtasks_are_read_in_order() -> None:
    reader = sl.sources.Iterator([{"x": number} for number in range(9)]).reader(CONTEXT)
    for split, position in [([6, 9], 1), ([0, 3], 2), ([3, 6], 0)]:
        reader.add_split(split, position)
    given = iter(reader.read, None)
    found = [value for batch in given if isinstance(batch, pa.RecordBatch) for value in batch.column("x").to_pylist()]
    assert found == [2, 3, 4, 5, 7, 8]


def test_keys_that_are_missing_are_null() -> None:
    assert read_all(sl.sources.Iterator([{"x": 1}, {"y": "a"}], X)) == [{"x": 1, "y": None}, {"x": None, "y": "a"}]


def test_the_schema_of_a_list_is_inferred_from_its_rows() -> None:
    assert sl.sources.Iterator([{"x": None}, {"x": 1.5}]).schema == pa.schema([("x", pa.float64())])
    batch = pa.record_batch({"x": [1]})
    assert sl.sources.Iterator([batch]).schema == batch.schema


def test_a_slow_iterable_gives_what_it_has() -> None:
    now_s = 0.0

    def slow() -> Iterator[Any]:
        nonlocal now_s
        for number in range(5):
            now_s += 0.015
            yield {"x": number, "y": "a"}

    reader = IteratorReader(slow, X, "it", lambda: now_s)
    reader.add_split([0, None], None)
    sizes = [given.num_rows for _ in range(3) if isinstance(given := reader.read(), pa.RecordBatch)]
    assert sizes == [2, 2, 1]


def test_an_iterable_that_is_shorter_the_second_time_is_an_error() -> None:
    reader = sl.sources.Iterator(lambda: [{"x": 1}], X).reader(CONTEXT)
    reader.add_split([0, None], 3)
    with pytest.raises(UserCodeError, match="the source 'rows' ended before item 3"):
        reader.read()


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([{"x": 1, "z": 2}], "gave a row with 'z'; its schema has 'x', 'y'"),
        ([{"x": "text"}], "do not fit its schema"),
        ([(1,)], "a row is a dict or a tuple with the 2 columns 'x', 'y'"),
        ([{"x": 1}, (1, "a")], "all of one kind"),
        ([5], "gave 5; a row is"),
        ([(1, 2)], "do not fit its schema"),
    ],
)
def test_rows_that_do_not_fit_are_refused(items: list[Any], complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        read_all(sl.sources.Iterator(items, X))


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        (iter([1]), "a restart could not read it again"),
        ({"x": 1}, "give a list or tuple, or a function"),
        (list, "give the schema of the rows, such as schema='user STRING, n BIGINT'"),
        ([], "cannot infer a schema, the items are not dicts"),
        ([(1, 2)], "cannot infer a schema"),
        ([{"x": None}], "the column 'x' has only nulls"),
        ([{"x": 1}, {"x": "a"}], "cannot infer the column types"),
    ],
)
def test_wrong_iterables_are_refused(items: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sources.Iterator(items)


def test_a_function_must_return_an_iterable_and_splits_must_be_ours() -> None:
    source = sl.sources.Iterator(lambda: 5, X)  # type: ignore[arg-type,return-value]
    with pytest.raises(UserCodeError, match="that returns an iterable"):
        read_all(source)
    with pytest.raises(RestoreError, match="not a split of Iterator"):
        source.reader(CONTEXT).add_split({"path": "x"}, None)

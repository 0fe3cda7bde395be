"""`map`, `filter` and `map_batches`: schemas that are inferred, and wrong use is reported at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

ROWS = pa.schema(
    [
        ("user", pa.string()),
        ("value", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("ratio", pa.float32()),
        ("tags", pa.list_(pa.string())),
        ("color", pa.dictionary(pa.int8(), pa.string())),
        ("ok", pa.bool_()),
    ]
)
OUT = "user STRING, n BIGINT"


@pytest.fixture
def rows() -> sl.Stream:
    return sl.Job("test").source(sl.sources.Generate(lambda start, count: None, schema=ROWS), "rows")


def test_the_schema_of_map_batches_is_inferred_without_rows(rows: sl.Stream) -> None:
    calls: list[int] = []

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        assert batch.schema == ROWS
        return batch.select(["user"]).append_column("double", pc.multiply(batch.column("value"), 2))

    assert rows.map_batches(function).schema == pa.schema([("user", pa.string()), ("double", pa.int64())])
    assert calls == [0]


def test_the_schema_is_inferred_from_generators_and_tables(rows: sl.Stream) -> None:
    def several(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch.select(["value"])
        yield batch.select(["value"])

    assert rows.map_batches(several).schema.names == ["value"]
    assert rows.map_batches(lambda batch: pa.Table.from_batches([batch]).select(["ok"])).schema.names == ["ok"]


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda batch: batch.column("nowhere"), "cannot be called with an empty batch, KeyError"),
        (lambda _: None, "returns nothing for an empty batch"),
        (lambda _: [], "returns nothing for an empty batch"),
        (lambda _: 5, "TypeError: it gave 5"),
        (lambda _: pa.record_batch({"a": []}), "the type of the column 'a' is unknown"),
    ],
)
def test_a_schema_that_cannot_be_inferred_has_to_be_given(
    rows: sl.Stream, function: Callable[[Any], Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        rows.map_batches(function)
    assert "map_batches(..., schema=" in str(caught.value)
    given = pa.schema([("a", pa.int64())])
    assert rows.map_batches(function, schema=given).schema == given


def test_map_batches_takes_a_function(rows: sl.Stream) -> None:
    wrong: Any = "f"
    with pytest.raises(ConfigurationError, match=r"map_batches.*give a function"):
        rows.map_batches(wrong)


def test_a_filter_is_checked_against_the_schema(rows: sl.Stream) -> None:
    assert rows.filter(pc.field("value") > 0).schema == ROWS
    with pytest.raises(ConfigurationError, match=r"filter.*no column 'valeu'; there are 'user'.*Did you mean 'value'"):
        rows.filter(pc.field("valeu") > 0)
    with pytest.raises(ConfigurationError, match="does not fit rows with the columns user string, value int32"):
        rows.filter(pc.field("tags") > 0)
    with pytest.raises(ConfigurationError, match="gives int32 for each row; give a condition"):
        rows.filter(pc.field("value") + 1)
    with pytest.raises(ConfigurationError, match="leave it out"):
        rows.filter(pc.field("ok"), format="arrow")
    wrong: Any = 5
    with pytest.raises(ConfigurationError, match="give an expression such as"):
        rows.filter(wrong)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda rows: rows.map(5, schema=OUT), r"map\(5\): give a function"),
        (lambda rows: rows.map(print, schema=None), r"the schema of map\(\) is None"),
        (lambda rows: rows.flat_map(5, schema=OUT), r"flat_map\(5\): give a function"),
        (
            lambda rows: rows.map_batches(print, format="panda"),
            "map_batches: format='panda'; use one of 'arrow', 'pandas'",
        ),
        (lambda rows: rows.map_batches(print, format="rows"), "rows do not show their schema; give the schema"),
        (lambda rows: rows.filter(print, format="x"), "filter: format='x'; use one of"),
    ],
)
def test_mistakes_are_told_at_once(rows: sl.Stream, make: Callable[[Any], Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        make(rows)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_package_that_is_not_there_is_told(rows: sl.Stream, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=rf"needs the package '{package}'.*pip install snapline\[{package}\]"):
        rows.map_batches(lambda frame: frame, format=package)


@pytest.mark.parametrize("format", ["pandas", "polars"])
def test_the_schema_of_data_frames_is_inferred(rows: sl.Stream, format: str) -> None:
    made = rows.select("user", "value").map_batches(lambda frame: frame, format=format).schema
    assert made.names == ["user", "value"]
    assert made.field("value").type == pa.int32()

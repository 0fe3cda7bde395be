"""Lookups: their result columns, and what they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import ConfigurationError

LEFT = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("user", pa.dictionary(pa.int32(), pa.string())),
        pa.field("price", pa.int64(), nullable=False),
    ]
)
TABLE = pa.table({"id": ["a"], "price": [1.5]})


def source(schema: pa.Schema) -> sl.sources.Generate:
    return sl.sources.Generate(lambda start, count: None, schema=schema)


def test_the_rows_of_a_lookup() -> None:
    table = pa.table({"id": pa.array(["a"], pa.large_string()), "price": [1.5], "at": [1]})
    stream = sl.Job("lookup").source(source(LEFT), "rows")
    names = stream.lookup(table, {"user": "id"}).schema.names
    assert names == ["at", "user", "price", "price_right", "at_right"]
    assert stream.lookup(table.to_batches()[0], {"user": "id"}, suffixes=("_mine", "")).schema.names == [
        "at_mine",
        "user",
        "price_mine",
        "price",
        "at",
    ]

    class Frame:
        def toArrow(self) -> pa.Table:  # as Spark calls it
            return table

    assert stream.lookup(Frame(), {"user": "id"}, how="left").schema.names == names


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda s: s.lookup(TABLE, ["user"]),
            "lookup, in the table: there is no column 'user'; there are 'id', 'price'",
        ),
        (lambda s: s.lookup(TABLE, {"usr": "id"}), "Did you mean 'user'?"),
        (lambda s: s.lookup(TABLE, []), "give the columns that must be equal"),
        (lambda s: s.lookup(TABLE, {"user": "id"}, how="full"), "how='full'; use one of 'inner', 'left'"),
        (lambda s: s.lookup(TABLE, {"price": "id"}), "'price' is int64, 'id' of the table is string"),
        (lambda s: s.lookup([1, 2], ["user"]), "list is not a table; give a pyarrow.Table"),
        (lambda s: s.lookup(TABLE, {"user": "id"}, max_size=5), "the limit is 5"),
        (
            lambda s: s.lookup(pa.table({"price": [1 << 70]}, pa.schema([("price", pa.decimal128(30))])), "price"),
            "cast one",
        ),
    ],
)
def test_lookups_that_do_not_fit_are_refused(call: Callable[[Any], Any], message: str) -> None:
    stream = sl.Job("lookup").source(source(LEFT), "rows")
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        call(stream)


def test_keys_of_a_table_are_cast_if_all_of_them_fit() -> None:
    stream = sl.Job("lookup").source(source(LEFT), "rows")
    assert stream.lookup(pa.table({"price": pa.array([1], pa.uint8()), "x": [1]}), "price").schema.names[-1] == "x"
    with pytest.raises(ConfigurationError, match="'price' is int64, 'price' of the table is uint64"):
        stream.lookup(pa.table({"price": pa.array([1 << 63], pa.uint64()), "x": [1]}), "price")


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_lookups_in_data_frames(library: str) -> None:
    frame = pytest.importorskip(library).DataFrame({"id": ["a", "b"], "city": ["Bonn", None]})
    stream = sl.Job("lookup").source(source(LEFT), "rows")
    assert stream.lookup(frame, {"user": "id"}).schema.names == ["at", "user", "price", "city"]

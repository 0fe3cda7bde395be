"""Aggregates: result types, and what is refused."""

from __future__ import annotations

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
ANYTHING: Any = 5


@pytest.fixture
def rows() -> sl.Stream:
    return sl.Job("test").source(sl.sources.Generate(lambda start, count: None, schema=ROWS), "rows")


def test_aggregates_have_types_that_do_not_overflow(rows: sl.Stream) -> None:
    stream = rows.key_by("user", "ok").aggregate(
        uid="all",
        n=sl.count(),
        total=sl.sum("value"),
        paid=sl.sum("price"),
        share=sl.sum("ratio"),
        least=sl.min("value"),
        last=sl.max("color"),
    )
    assert stream.schema == pa.schema(
        [
            ("user", pa.string()),
            ("ok", pa.bool_()),
            ("n", pa.int64()),
            ("total", pa.int64()),
            ("paid", pa.decimal128(38, 2)),
            ("share", pa.float64()),
            ("least", pa.int32()),
            ("last", pa.string()),
        ]
    )


@pytest.mark.parametrize(
    ("aggregates", "complaint"),
    [
        ({}, "nothing to compute"),
        ({"n": 5}, "n=5; use snapline.count"),
        ({"user": sl.count()}, "'user' is a key column already"),
        ({"n": sl.sum("nowhere")}, r"n=sum\('nowhere'\): there is no column 'nowhere'"),
        ({"n": sl.sum("tags")}, "has no sum"),
        ({"n": sl.sum("ok")}, "bool has no sum"),
        ({"n": sl.max("tags")}, "has no max"),
        ({"n": sl.min("ok")}, "bool has no min"),
        ({"n": sl.sum("valeu")}, r"aggregate 'a': n=sum\('valeu'\).*Did you mean 'value'"),
        ({"n": sl.mean("user")}, "string has no mean"),
        ({"n": sl.count_distinct("tags")}, "has no count_distinct"),
        ({"n": sl.top_n("user", 0)}, "n=0: too small; use at least 1"),
        ({"n": sl.top_n("user", 2, by="tags")}, "has no top_n"),
        ({"n": sl.collect("user", 0)}, "limit=0"),
        ({"n": sl.count(where=5)}, "where=5; give an expression"),
        ({"n": sl.count(where="value")}, "is int32; give a condition"),
        (
            {"n": sl.count(where=pc.field("prize") > 5)},
            "is wrong: there is no column 'prize'; there are 'user', 'value'",
        ),
        ({"n": sl.aggregate(ANYTHING, "value", type="int")}, "has no create, add, merge, result"),
        ({"n/count": sl.count()}, "names with '/' are reserved for states"),
    ],
)
def test_wrong_aggregates_are_refused(rows: sl.Stream, aggregates: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        rows.key_by("user").aggregate(uid="a", **aggregates)


def test_conditions_may_be_expressions_or_columns(rows: sl.Stream) -> None:
    stream = rows.key_by("user").aggregate(
        uid="a", some=sl.count(where="ok"), big=sl.sum("value", where=pc.field("value") > 5)
    )
    assert stream.schema.names == ["user", "some", "big"]


def test_aggregates_are_shown_as_they_are_written() -> None:
    assert repr(sl.count()) == "snapline.count()"
    assert repr(sl.top_n("price", 3, by="time")) == "snapline.top_n('price', 3, by='time')"

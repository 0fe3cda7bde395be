"""The table of random expressions covers the functions that run here, and its edge values can be made."""

from __future__ import annotations

import re

import pyarrow as pa
from benchmarks.expressions.generation import COPIES, Generator, column_name, edge_table
from benchmarks.expressions.running import supported_names
from benchmarks.expressions.signatures import Choice, table

from snapline.sql.expressions.registry import FORMS, KERNELS

_WITHOUT_SQL = frozenset(
    {
        *("Alias", "KnownFloatingPointNormalized", "KnownNotNull", "KnownNullable", "NormalizeNaNAndZero", "UpCast"),
        *("Literal", "NamedLambdaVariable", "LambdaFunction", "TempResolvedColumn", "PreciseTimestampConversion"),
        *("AtLeastNNonNulls", "CheckOverflow", "CheckOverflowInSum", "MakeDecimal", "UnscaledValue", "Empty2Null"),
        *("JoinedList", "CurrentBatchTimestamp", "WindowTime", "UpdateFields", "TryEval", "TimeAdd", "StringDecode"),
        "PythonUDF",
    }
)
"""Expressions that Spark makes itself, or that only the DataFrame API has."""


def _sql() -> str:
    choices = (
        text for row in table().signatures for each in row.takes if isinstance(each, Choice) for text in each.texts
    )
    return "\n".join([*(row.sql for row in table().signatures), *choices]).lower()


def test_every_supported_function_is_generated() -> None:
    sql = _sql()
    assert [name for name in sorted(supported_names()) if not re.search(rf"\b{name}\b", sql)] == []


def test_every_kind_of_argument_has_values() -> None:
    found = table()
    arguments = {each for row in found.signatures for each in row.takes if isinstance(each, str)}
    assert arguments - found.values.keys() == set()


def test_edge_values_have_nulls_and_both_copies() -> None:
    rows = edge_table(table(), seed=1)
    for kind in table().values:
        for copy in COPIES:
            column = rows.column(column_name(kind, copy))
            assert column.null_count > 0, kind
            assert column.null_count < len(column), kind


def test_extreme_values_are_among_the_edges() -> None:
    rows = edge_table(table(), seed=1)
    lows = {
        int(value) for value in rows.column("far_timestamp_a").combine_chunks().view(pa.int64()).drop_null().to_pylist()
    }
    assert {-(2**63), 2**63 - 1} <= lows


def test_a_seed_makes_the_same_expressions_again() -> None:
    first, second = (Generator(table(), "ANSI", 7) for _ in range(2))
    assert [first.expression() for _ in range(50)] == [second.expression() for _ in range(50)]


def test_every_registered_expression_is_known_to_the_table() -> None:
    classes = {row.name for row in table().signatures}
    sql = _sql()
    reached = {name for name in (*KERNELS, *FORMS) if name in classes or re.search(rf"\b{name.lower()}\b", sql)}
    assert sorted({*KERNELS, *FORMS} - reached - _WITHOUT_SQL) == []

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.sql.operators.generated_rows import GenerateRows
from snapline.sql.plans.common_tables import reference
from snapline.sql.plans.trees import Attribute, Expression
from snapline.testing import OperatorHarness

ITEMS = Attribute(2, "items", pa.list_(pa.int64()))
PAIRS = Attribute(2, "items", pa.map_(pa.string(), pa.int64()))
STRUCTS = Attribute(2, "items", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])))
ID = Attribute(1, "id", pa.int64())


def made(
    kind: Attribute,
    rows: list[dict[str, Any]],
    output: list[tuple[str, Any]],
    name: str = "Explode",
    outer: bool = False,
) -> list[Any]:
    given = pa.schema([("id", pa.int64()), ("items", kind.type)])
    schema = pa.schema([("id", pa.int64()), *output])
    generator = Expression(name, pa.null(), (reference(kind),), {}, True, name)
    operator = GenerateRows(generator, (ID, kind), [0], schema, is_outer=outer)
    stream = sl.Job("rows").source(sl.sources.Iterator([], schema=given), uid="rows").apply(operator, schema=schema)
    with OperatorHarness.of(stream) as harness:
        harness.process(pa.RecordBatch.from_pylist(rows, schema=given))
        return [tuple(row.values()) for row in harness.rows()]


LISTS: list[dict[str, Any]] = [
    {"id": 1, "items": [5, None]},
    {"id": 2, "items": []},
    {"id": 3, "items": None},
    {"id": 4, "items": [7]},
]


@pytest.mark.parametrize(
    ("outer", "expected"),
    [
        (False, [(1, 5), (1, None), (4, 7)]),
        (True, [(1, 5), (1, None), (2, None), (3, None), (4, 7)]),
    ],
)
def test_a_row_for_each_element(outer: bool, expected: list[Any]) -> None:
    assert made(ITEMS, LISTS, [("item", pa.int64())], outer=outer) == expected


def test_positions() -> None:
    output = [("pos", pa.int32()), ("item", pa.int64())]
    expected = [(1, 0, 5), (1, 1, None), (2, None, None), (3, None, None), (4, 0, 7)]
    assert made(ITEMS, LISTS, output, "PosExplode", outer=True) == expected


def test_a_map_gives_keys_and_values() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "items": None}, {"id": 2, "items": [("a", 1), ("b", None)]}]
    assert made(PAIRS, rows, [("key", pa.string()), ("value", pa.int64())]) == [(2, "a", 1), (2, "b", None)]


def test_fields_of_elements_are_columns() -> None:
    rows: list[dict[str, Any]] = [{"id": 1, "items": [{"a": 1, "b": "x"}, {"a": 2, "b": None}]}]
    assert made(STRUCTS, rows, [("a", pa.int64()), ("b", pa.string())], "Inline") == [(1, 1, "x"), (1, 2, None)]

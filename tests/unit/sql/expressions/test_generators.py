"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import call, column, literal

from snapline.sql.expressions.generators import Generator
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.trees import Attribute, Expression

INT, TEXT = pa.int32(), pa.string()
ARRAYS = pa.array([[3, None], [], None, [5]], pa.list_(INT))


def generated(expression: Expression, array: pa.Array, *, outer: bool = False) -> tuple[list[int], list[list[Any]]]:
    generator = Generator(expression, [Attribute(0, "c0", array.type)], outer=outer)
    rows, columns = generator.generate(pa.RecordBatch.from_arrays([array], names=["c0"]))
    return rows.to_pylist(), [each.to_pylist() for each in columns]


def test_exploded_arrays() -> None:
    explode = call("Explode", INT, column(0, ARRAYS.type))
    assert generated(explode, ARRAYS) == ([0, 0, 3], [[3, None, 5]])
    assert generated(explode, ARRAYS, outer=True) == ([0, 0, 1, 2, 3], [[3, None, None, None, 5]])
    wrapped = call("GeneratorOuter", INT, explode)
    assert generated(wrapped, ARRAYS) == generated(explode, ARRAYS, outer=True)


def test_positions() -> None:
    explode = call("PosExplode", INT, column(0, ARRAYS.type))
    assert generated(explode, ARRAYS) == ([0, 0, 3], [[0, 1, 0], [3, None, 5]])
    assert generated(explode, ARRAYS, outer=True)[1] == [[0, 1, None, None, 0], [3, None, None, None, 5]]


def test_exploded_maps() -> None:
    maps = pa.array([[("a", 1), ("b", None)], None], pa.map_(TEXT, INT))
    assert generated(call("Explode", INT, column(0, maps.type)), maps) == ([0, 0], [["a", "b"], [1, None]])


def test_structs_become_columns() -> None:
    structs = pa.array([[{"p": 1, "q": "z"}, None], []], pa.list_(pa.struct([("p", INT), ("q", TEXT)])))
    assert generated(call("Inline", INT, column(0, structs.type)), structs) == ([0, 0], [[1, None], ["z", None]])


def test_stacked_values() -> None:
    numbers = pa.array([7, 8], INT)
    stack = call("Stack", INT, literal(2, INT), column(0, INT), literal("a", TEXT), literal(3, INT))
    assert generated(stack, numbers) == ([0, 0, 1, 1], [[7, 3, 8, 3], ["a", None, "a", None]])


def test_members_of_json() -> None:
    texts = pa.array(['{"a": 1.50, "b": "x", "c": {"d": [1, 2]}}', "no", None, '{"b": null}'])
    fields = call("JsonTuple", TEXT, column(0, TEXT), *(literal(name, TEXT) for name in "abc"))
    rows, columns = generated(fields, texts)
    assert rows == [0, 1, 2, 3]
    assert columns == [["1.5", None, None, None], ["x", None, None, None], ['{"d":[1,2]}', None, None, None]]


def test_other_generators_are_refused() -> None:
    with pytest.raises(UnsupportedError):
        Generator(call("SQLKeywords", INT), [])

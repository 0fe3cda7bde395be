"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import call, column, condition, literal, values

from snapline.sql.plans.trees import Expression

INT, TEXT = pa.int32(), pa.string()
TYPE = pa.map_(TEXT, INT)
MAPS = pa.array([[("a", 1), ("b", 2)], [("b", None)], [], None], TYPE)
NUMBERS = pa.array([1, 0, 5, 5], INT)


def variable(number: int, type: pa.DataType) -> Expression:
    return call("NamedLambdaVariable", type, id=number, name=f"x{number}")


K, V, W = variable(101, TEXT), variable(102, INT), variable(103, INT)


def test_kept_entries() -> None:
    greater = call("GreaterThan", pa.bool_(), V, column(1, INT))
    kept = call("MapFilter", TYPE, column(0, TYPE), call("LambdaFunction", pa.bool_(), greater, K, V))
    assert values(kept, MAPS, NUMBERS) == [[("b", 2)], [], [], None]


def test_other_keys() -> None:
    longer = call("Concat", TEXT, K, literal("x", TEXT))
    changed = call("TransformKeys", TYPE, column(0, TYPE), call("LambdaFunction", TEXT, longer, K, V))
    assert values(changed, MAPS) == [[("ax", 1), ("bx", 2)], [("bx", None)], [], None]
    same = call("LambdaFunction", TEXT, literal("k", TEXT), K, V)
    assert condition(call("TransformKeys", TYPE, column(0, TYPE), same), MAPS) == "DUPLICATED_MAP_KEY"
    number = pa.map_(INT, INT)
    values_as_keys = call("LambdaFunction", INT, V, K, V)
    assert condition(call("TransformKeys", number, column(0, TYPE), values_as_keys), MAPS) == "NULL_MAP_KEY"


def test_other_values() -> None:
    more = call("Add", INT, V, column(1, INT), evalMode="ANSI")
    changed = call("TransformValues", TYPE, column(0, TYPE), call("LambdaFunction", INT, more, K, V))
    assert values(changed, MAPS, NUMBERS) == [[("a", 2), ("b", 3)], [("b", None)], [], None]


def test_two_maps_together() -> None:
    others = pa.array([[("a", 10), ("q", 11)], [("a", 10)], [], [("a", 1)]], TYPE)
    first = call("Coalesce", INT, V, literal(-1, INT))
    second = call("Coalesce", INT, W, literal(-2, INT))
    product = call("Multiply", INT, first, second, evalMode="ANSI")
    both = call("MapZipWith", TYPE, column(0, TYPE), column(1, TYPE), call("LambdaFunction", INT, product, K, V, W))
    assert values(both, MAPS, others) == [
        [("a", 10), ("b", -4), ("q", -11)], [("b", 2), ("a", -10)], [], None
    ]  # fmt: skip


def test_keys_of_rows_without_a_result_are_not_mistaken_for_others() -> None:
    left = pa.array([[("b", 2), ("c", 3), ("d", 4), ("f", 7)], [("a", 6)]], TYPE)
    right = pa.array([None, [("a", 0)]], TYPE)
    both = call("MapZipWith", TYPE, column(0, TYPE), column(1, TYPE), call("LambdaFunction", INT, V, K, V, W))
    assert values(both, left, right) == [None, [("a", 6)]]

"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, call, column, condition, literal, values

INT, TEXT = pa.int32(), pa.string()
TYPE = pa.map_(TEXT, INT)
MAPS = pa.array([[("a", 1), ("b", 2)], [("b", None)], [], None], TYPE)


def test_maps_from_values() -> None:
    numbers = pa.array([1, None], INT)
    made = call("CreateMap", TYPE, literal("a", TEXT), column(0, INT), literal("b", TEXT), literal(2, INT))
    assert values(made, numbers) == [[("a", 1), ("b", 2)], [("a", None), ("b", 2)]]
    twice = call("CreateMap", TYPE, literal("a", TEXT), column(0, INT), literal("a", TEXT), literal(2, INT))
    assert condition(twice, numbers) == "DUPLICATED_MAP_KEY"
    null = call("CreateMap", TYPE, literal(None, TEXT), column(0, INT))
    assert condition(null, numbers) == "NULL_MAP_KEY"


def test_a_wrong_key_is_found_before_the_next_value_is_computed() -> None:
    numbers = pa.array([2147483647], INT)
    overflow = call("Add", INT, column(0, INT), literal(1, INT), evalMode="ANSI")
    made = call("CreateMap", TYPE, literal(None, TEXT), column(0, INT), literal("k", TEXT), overflow)
    assert condition(made, numbers) == "NULL_MAP_KEY"


def test_zero_and_minus_zero_are_one_key() -> None:
    keys = pa.array([[0.0, -0.0]])
    items = pa.array([[1, 2]], pa.list_(INT))
    assert condition(applied("MapFromArrays", pa.map_(pa.float64(), INT), keys, items), keys, items) == (
        "DUPLICATED_MAP_KEY"
    )


def test_maps_from_arrays() -> None:
    keys = pa.array([["x", "y"], None, []], pa.list_(TEXT))
    items = pa.array([[2, None], [1], []], pa.list_(INT))
    made = applied("MapFromArrays", TYPE, keys, items)
    assert values(made, keys, items) == [[("x", 2), ("y", None)], None, []]
    short = pa.array([[2], [1], []], pa.list_(INT))
    assert condition(made, keys, short) == "_LEGACY_ERROR_TEMP_2128"


def test_maps_from_entries_are_null_if_one_of_them_is() -> None:
    entries = pa.array(
        [[{"k": "a", "v": 1}], [None, {"k": "b", "v": 2}], [], None], pa.list_(pa.struct([("k", TEXT), ("v", INT)]))
    )
    assert values(applied("MapFromEntries", TYPE, entries), entries) == [[("a", 1)], None, [], None]


def test_joined_maps() -> None:
    others = pa.array([[("c", 3)], [("a", 5)], [("z", 0)], [("z", 0)]], TYPE)
    assert values(applied("MapConcat", TYPE, MAPS, others), MAPS, others) == [
        [("a", 1), ("b", 2), ("c", 3)], [("b", None), ("a", 5)], [("z", 0)], None
    ]  # fmt: skip
    assert condition(applied("MapConcat", TYPE, MAPS, MAPS), MAPS, MAPS) == "DUPLICATED_MAP_KEY"


def test_keys_values_and_entries() -> None:
    assert values(applied("MapKeys", pa.list_(TEXT), MAPS), MAPS) == [["a", "b"], ["b"], [], None]
    assert values(applied("MapValues", pa.list_(INT), MAPS), MAPS) == [[1, 2], [None], [], None]
    type = pa.list_(pa.struct([("key", TEXT), ("value", INT)]))
    assert values(applied("MapEntries", type, MAPS), MAPS)[1:] == [[{"key": "b", "value": None}], [], None]


def test_keys_from_arrays_keep_the_sign_of_zero() -> None:
    keys, items = pa.array([[-0.0]]), pa.array([["x"]])
    made = applied("MapFromArrays", pa.map_(pa.float64(), pa.string()), keys, items)
    assert str(values(made, keys, items)) == "[[(-0.0, 'x')]]"

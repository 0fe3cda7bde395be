"""Values as Spark should give them; `python -m benchmarks.expressions` asks Spark itself."""

from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, call, column, literal, values

INT, TEXT = pa.int32(), pa.string()
STRUCT = pa.struct([("p", INT), ("q", TEXT)])
STRUCTS = pa.array([{"p": 1, "q": "z"}, {"p": None, "q": "y"}, None], STRUCT)


def test_structs_from_values() -> None:
    numbers = pa.array([1, None], INT)
    made = call("CreateNamedStruct", STRUCT, literal("p", TEXT), column(0, INT), literal("q", TEXT), literal("k", TEXT))
    assert values(made, numbers) == [{"p": 1, "q": "k"}, {"p": None, "q": "k"}]


def test_fields_of_null_are_null() -> None:
    assert values(applied("GetStructField", INT, STRUCTS, ordinal=0), STRUCTS) == [1, None, None]
    sliced = STRUCTS.slice(1)
    assert values(applied("GetStructField", TEXT, sliced, ordinal=1), sliced) == ["y", None]


def test_fields_of_all_elements() -> None:
    arrays = pa.array([[{"p": 1, "q": "z"}, None], [], None], pa.list_(STRUCT))
    fields = applied("GetArrayStructFields", pa.list_(INT), arrays, ordinal=0)
    assert values(fields, arrays) == [[1, None], [], None]


def test_fields_set_and_dropped() -> None:
    target = pa.struct([("q", TEXT), ("r", INT)])
    drop = call("DropField", pa.null(), name="P")
    add = call("WithField", INT, literal(7, INT), name="r")
    assert values(call("UpdateFields", target, column(0, STRUCT), drop, add), STRUCTS) == [
        {"q": "z", "r": 7}, {"q": "y", "r": 7}, None
    ]  # fmt: skip
    replace = call("WithField", INT, literal(7, INT), name="p")
    assert values(call("UpdateFields", STRUCT, column(0, STRUCT), replace), STRUCTS) == [
        {"p": 7, "q": "z"}, {"p": 7, "q": "y"}, None
    ]  # fmt: skip

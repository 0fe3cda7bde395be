"""Types that may change between two versions of a job."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.state.evolution import Change, evolved, obstacle, widening_obstacle
from snapline.state.state_types import OBJECT, resolve


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        ("int", "bigint"),
        ("a INT", "a INT"),
        ("a INT, b INT", "b INT"),
        ("a INT NOT NULL", "b STRING, a BIGINT"),
        ("array<struct<a:int>>", "array<struct<b:int,a:bigint>>"),
        ("map<string,struct<a:int>>", "map<string,struct<a:bigint>>"),
        (pa.list_(pa.int32(), 2), pa.list_(pa.int64(), 2)),
        (pa.large_list(pa.int32()), pa.large_list(pa.int64())),
    ],
)
def test_changes_that_keep_what_is_kept(stored: object, declared: object) -> None:
    assert obstacle(resolve(stored).stored, resolve(declared).stored) is None


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        ("bigint", "int"),
        ("int", "string"),
        ("a INT", "a INT NOT NULL"),
        ("a INT", "a INT, b INT NOT NULL"),
        ("array<int>", "array<smallint>"),
        ("map<int,int>", "map<bigint,int>"),
        (pa.list_(pa.int32(), 2), pa.list_(pa.int32(), 3)),
        (pa.list_(pa.int32()), pa.large_list(pa.int32())),
    ],
)
def test_other_changes_have_an_obstacle(stored: object, declared: object) -> None:
    assert obstacle(resolve(stored).stored, resolve(declared).stored) is not None


def test_a_default_fills_new_fields_also_inside() -> None:
    stored, declared = resolve("s STRUCT<a:int>").stored, resolve("s STRUCT<a:int,b:int NOT NULL>, c STRING").stored
    default = {"s": {"b": 5}, "c": "new"}
    assert obstacle(stored, declared) is not None
    assert obstacle(stored, declared, default) is None
    values = pa.array([{"s": {"a": 1}}, None], stored)
    assert evolved(values, declared, default).to_pylist() == [{"s": {"a": 1, "b": 5}, "c": "new"}, None]


@pytest.mark.parametrize(
    ("stored", "declared", "values", "expected"),
    [
        (
            "array<struct<a:int>>",
            "array<struct<a:bigint,b:int>>",
            [[{"a": 1}], None, [], [None, {"a": 2}]],
            [[{"a": 1, "b": None}], None, [], [None, {"a": 2, "b": None}]],
        ),
        (
            "map<string,struct<a:int,b:int>>",
            "map<string,struct<b:int>>",
            [[("k", {"a": 1, "b": 2})], None],
            [[("k", {"b": 2})], None],
        ),
        (pa.list_(pa.int8(), 2), pa.list_(pa.int64(), 2), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
    ],
)
def test_slices_and_nulls_survive(stored: object, declared: object, values: list[Any], expected: list[Any]) -> None:
    array = pa.array([values[0], *values, values[0]], resolve(stored).stored)
    made = evolved(array.slice(1, len(values)), resolve(declared).stored)
    made.validate(full=True)
    assert made.to_pylist() == expected


def test_any_object_becomes_something_else_only_by_a_function() -> None:
    number = resolve("bigint")
    assert Change().obstacle(OBJECT, number) == "any Python object cannot become int64"
    assert Change(int).obstacle(OBJECT, number) is None
    assert Change().obstacle(OBJECT, OBJECT) is None


def test_what_nobody_declared_loses_nothing() -> None:
    one, both = resolve("a INT"), resolve("a INT, b INT")
    assert widening_obstacle(both, one) is not None
    assert widening_obstacle(resolve("int"), resolve("bigint")) is None

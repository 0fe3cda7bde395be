from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.json_columns import is_plain, read_objects

TYPE = pa.struct(
    [
        ("a", pa.int32()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("d", pa.list_(pa.field("element", pa.string()))),
        ("e", pa.struct([("f", pa.bool_())])),
    ]
)
EMPTY = {"a": None, "b": None, "c": None, "d": None, "e": None}


def test_objects_are_read_and_nulls_stay() -> None:
    texts = pa.array(['{"a":1,"z":[{}]}', None, "{}", '{"b":"é","c":2,"d":["x",null],"e":{"f":true}}'])
    found = read_objects(texts, TYPE)
    assert found is not None
    assert found.type == TYPE
    assert found.to_pylist() == [
        {**EMPTY, "a": 1},
        None,
        EMPTY,
        {**EMPTY, "b": "é", "c": 2.0, "d": ["x", None], "e": {"f": True}},
    ]


@pytest.mark.parametrize(
    "text",
    [
        *('{"a":1,"a":2}', '{"a":3000000000}', '{"a":1.0}', '{"a":"1"}', '{"b":1}', '{"c":1e400}', '{"a":1} x', ""),
        *('{"a":1}{"a":2}', '{"d":[1]}', "{'a':1}", '{"c":"NaN"}', "[1]", "null", '{"a":1}\n{"a":2}', '{"c":-0}', " "),
    ],
)
def test_whatever_is_in_doubt_is_left_to_the_reader_of_rows(text: str) -> None:
    assert read_objects(pa.array(['{"a":1}', text]), TYPE) is None


def test_types() -> None:
    assert is_plain(TYPE)
    assert not is_plain(pa.struct([("a", pa.date32())]))
    assert not is_plain(pa.struct([("a", pa.map_(pa.string(), pa.string()))]))
    assert not is_plain(pa.struct([]))

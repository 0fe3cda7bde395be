from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import applied, call, column, literal, values


def test_empty_lists_have_no_text() -> None:
    lists = pa.array([["a", "b"], [], ["c"]])
    joined = call("JoinedList", pa.string(), column(0, lists.type), literal(None, pa.null()), descending=())
    assert values(joined, lists) == ["ab", None, "c"]


def test_bytes_are_joined_by_bytes() -> None:
    lists = pa.array([[b"\xff", b"\x00"]])
    joined = call("JoinedList", pa.binary(), column(0, lists.type), literal(b"-", pa.binary()), descending=())
    assert values(joined, lists) == [b"\xff-\x00"]


def test_nulls_among_the_keys_come_where_the_order_says() -> None:
    element = pa.struct({"_0": pa.string(), "_1": pa.int64()})
    lists = pa.array([[("a", 2), ("b", None), ("c", 1)]], pa.list_(element))
    for descending, nulls_first, expected in ((False, True, "bca"), (False, False, "cab"), (True, True, "bac")):
        joined = applied(
            "JoinedList", pa.string(), lists, is_keyed=True, descending=(descending,), nulls_first=(nulls_first,)
        )
        with_delimiter = call("JoinedList", pa.string(), *joined.children, literal("", pa.string()), **joined.arguments)
        assert values(with_delimiter, lists) == [expected]

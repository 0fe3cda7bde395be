"""Arrow types with other types inside."""

from __future__ import annotations

import pyarrow as pa

from snapline.connectors.formats.type_tree import can_cast, leaf_types, rebuilt

WORDS = pa.dictionary(pa.int8(), pa.int64())
NESTED = pa.struct(
    [
        ("l", pa.large_list(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("d", pa.dictionary(pa.int8(), pa.int64())),
    ]
)


def test_all_types_inside_are_found() -> None:
    assert list(leaf_types(NESTED)).count(pa.int64()) == 3


def test_leaves_are_replaced_and_lists_are_the_usual_ones() -> None:
    changed = rebuilt(NESTED, lambda kind: pa.int32() if kind == pa.int64() else kind)
    assert changed == pa.struct(
        [("l", pa.list_(pa.int32())), ("m", pa.map_(pa.string(), pa.int32())), ("d", pa.int32())]
    )


def test_text_is_no_number() -> None:
    assert can_cast(pa.int32(), pa.int64())
    assert can_cast(pa.dictionary(pa.int8(), pa.string()), pa.large_string())
    assert not can_cast(pa.string(), pa.int64())
    assert not can_cast(pa.int64(), pa.string())
    assert not can_cast(pa.int64(), pa.list_(pa.int64()))

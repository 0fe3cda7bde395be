from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.sql.expressions.text_buffers import TextBuffer

TEXTS = ["Spark", "aßé😀b", None, "", "é"]


def _cut(texts: pa.Array, start: int, stop: int) -> list[Any]:
    size = len(texts)
    found: list[Any] = TextBuffer(texts).slices(np.full(size, start), np.full(size, stop)).to_pylist()
    return found


@pytest.mark.parametrize(("start", "stop"), [(0, 2), (1, 4), (3, 100), (-5, 1), (4, 2), (0, 0)])
def test_slices_count_characters(start: int, stop: int) -> None:
    expected = [None if text is None else text[max(start, 0) : max(stop, 0)] for text in TEXTS]
    assert _cut(pa.array(TEXTS), start, stop) == expected
    assert _cut(pa.array(["x", *TEXTS])[1:], start, stop) == expected


def test_binary_is_cut_by_bytes() -> None:
    assert _cut(pa.array([b"\xc3\xa9a", b""]), 1, 2) == [b"\xa9", b""]


def test_lengths_and_characters_before_a_byte() -> None:
    buffer = TextBuffer(pa.array(["aßb", "abc"]))
    assert not buffer.is_ascii
    assert buffer.lengths.tolist() == [3, 3]
    assert buffer.characters(np.array([3, 2])).tolist() == [2, 2]


def test_only_the_bytes_in_use_decide_what_is_ascii() -> None:
    assert TextBuffer(pa.array(["é", "a"])[1:]).is_ascii
    assert TextBuffer(pa.array([], pa.string())).is_ascii

"""Text of messages."""

from __future__ import annotations

from snapline.text import shortened


def test_long_values_are_cut_and_short_ones_are_not() -> None:
    assert shortened({"a": 1}) == "{'a': 1}"
    assert shortened("x" * 198) == repr("x" * 198)
    assert shortened("x" * 199) == "'" + "x" * 199 + "..."

"""Text for messages."""

from __future__ import annotations

from snapline.text import shortened


def test_short_values_are_shown_whole() -> None:
    assert shortened("x") == "'x'"
    assert shortened([1, None]) == "[1, None]"
    assert shortened("y" * 198) == repr("y" * 198)


def test_long_values_are_cut() -> None:
    text = shortened("y" * 1000)
    assert text == "'" + "y" * 199 + "..."

"""Text for messages."""

from __future__ import annotations

import pytest

from snapline.text import shortened, size_text


def test_short_values_are_shown_whole() -> None:
    assert shortened("x") == "'x'"
    assert shortened([1, None]) == "[1, None]"
    assert shortened("y" * 198) == repr("y" * 198)


def test_long_values_are_cut() -> None:
    text = shortened("y" * 1000)
    assert text == "'" + "y" * 199 + "..."


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (6811, "6.8 kB"),
        (999_999, "1.0 MB"),
        (2_500_000, "2.5 MB"),
        (3 * 10**9, "3.0 GB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_sizes_have_the_unit_that_suits_them(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text

from __future__ import annotations

import pyarrow as pa
import pytest

from snapline.sql.expressions.like_patterns import like_pattern
from snapline.sql.expressions.registry import SparkError

TEXTS = ["abc", "", "a%c", "ab", "a\nc", "aéc", "xabcx"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("abc", ["abc"]),
        ("", [""]),
        ("%", TEXTS),
        ("ab%", ["abc", "ab"]),
        ("%bc", ["abc"]),
        ("%bc%", ["abc", "xabcx"]),
        ("a_c", ["abc", "a%c", "a\nc", "aéc"]),
        ("a\\%c", ["a%c"]),
        ("%a%c%", ["abc", "a%c", "a\nc", "aéc", "xabcx"]),
        ("_%_", ["abc", "a%c", "ab", "a\nc", "aéc", "xabcx"]),
    ],
)
def test_columns_and_single_texts_match_alike(pattern: str, expected: list[str]) -> None:
    like = like_pattern(pattern, "\\")
    assert [text for text in TEXTS if like.matches(text)] == expected
    found = like.test(pa.array([*TEXTS, None])).to_pylist()
    assert found == [*(text in expected for text in TEXTS), None]


@pytest.mark.parametrize(
    ("pattern", "condition"), [("a\\", "INVALID_FORMAT.ESC_AT_THE_END"), ("a\\b", "INVALID_FORMAT.ESC_IN_THE_MIDDLE")]
)
def test_the_escape_character_needs_something_special(pattern: str, condition: str) -> None:
    with pytest.raises(SparkError) as caught:
        like_pattern(pattern, "\\")
    assert caught.value.condition == condition


def test_another_escape_character() -> None:
    assert like_pattern("a/%//", "/").matches("a%/")

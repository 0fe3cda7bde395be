from __future__ import annotations

import pytest

from snapline.sql.expressions.java_patterns import in_units, matches, translated
from snapline.sql.expressions.registry import UnsupportedError


def _found(pattern: str, text: str) -> list[str]:
    return [match.group() for match in matches(translated(pattern), text)]


def test_after_an_empty_match_the_search_goes_on_one_further() -> None:
    assert _found("x*", "axb") == ["", "x", "", ""]
    assert _found("|a", "a") == ["", ""]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("c$", "abc\n", True),
        ("c$", "abc\n\n", False),
        ("c\\z", "abc\n", False),
        ("^b", "a\nb", False),
        ("(?m)^b", "a\nb", True),
        ("a.c", "a\rc", False),
        ("(?s)a.c", "a\nc", True),
        ("\\d", "٣", False),
        ("\\w", "é", False),
        ("(?i)É", "é", False),
        ("(?iu)É", "é", True),
        ("(?i)k", "\u212a", False),
    ],
)
def test_lines_and_alphabets_are_those_of_java(pattern: str, text: str, expected: bool) -> None:
    assert (translated(pattern).python.search(text) is not None) == expected


def test_ends_of_texts_are_tested_by_re2_but_not_located() -> None:
    translation = translated("a$")
    assert translation.re2 is None
    assert translation.re2_test is not None


def test_looking_behind_for_different_lengths_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="different lengths"):
        translated("(?<=a+)b")


@pytest.mark.parametrize(
    ("pattern", "text", "count"), [("\\S?", "a😀b", 4), ("x*", "😀a", 4), ("", "😀", 3), ("[^a]?", "😀", 2)]
)
def test_empty_matches_between_the_halves_of_characters(pattern: str, text: str, count: int) -> None:
    translation = translated(pattern)
    assert len(list(matches(translation, in_units(translation, text)))) == count

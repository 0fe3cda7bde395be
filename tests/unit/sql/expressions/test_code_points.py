from __future__ import annotations

import pytest

from snapline.sql.expressions import code_points
from snapline.sql.expressions.code_points import characters, common, complement, joined, named, with_other_case


def _has(points: code_points.CodePoints | None, char: str) -> bool:
    assert points is not None
    return any(low <= ord(char) <= high for low, high in points)


def test_ranges_are_joined_where_they_touch() -> None:
    assert joined([(5, 9), (1, 2), (3, 4), (20, 30)]) == ((1, 9), (20, 30))


def test_complement_and_intersection() -> None:
    assert complement(complement(characters("acz"))) == characters("acz")
    assert complement(code_points.EVERY) == ()
    assert common(characters("abc"), characters("bcd")) == characters("bc")


def test_the_other_case_is_that_of_ascii_only() -> None:
    assert with_other_case(characters("bÄ")) == characters("BbÄ")


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("L", "é", "1"),
        ("Lu", "É", "é"),
        ("Alpha", "a", "é"),
        ("IsL", "ß", "_"),
        ("gc=Nd", "٣", "x"),
        ("Punct", "!", "a"),
    ],
)
def test_named_classes(name: str, inside: str, outside: str) -> None:
    assert _has(named(name), inside)
    assert not _has(named(name), outside)


def test_scripts_are_not_known() -> None:
    assert named("IsLatin") is None

from __future__ import annotations

import re

import pytest

from snapline.sql.expressions.java_replacements import ReplacementError, in_re2, replacement_parts

PATTERN = re.compile("(a)(?P<n>b)?")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x$1y", ("x", 1, "y")),
        ("$10", (1, "0")),
        ("${n}", (2,)),
        ("\\$1", ("$1",)),
        ("a\\\\b", ("a\\b",)),
        ("$0$2", (0, 2)),
    ],
)
def test_groups_and_escapes(text: str, parts: tuple[str | int, ...]) -> None:
    assert replacement_parts(text, PATTERN)() == parts


@pytest.mark.parametrize("text", ["$", "$a", "$3", "${zz}", "x\\", "${n"])
def test_what_java_refuses_raises_with_the_first_match(text: str) -> None:
    parts = replacement_parts(text, PATTERN)
    with pytest.raises(ReplacementError):
        parts()


def test_re2_names_nine_groups() -> None:
    assert in_re2(("a\\", 1, "b")) == "a\\\\\\1b"
    assert in_re2((10,)) is None

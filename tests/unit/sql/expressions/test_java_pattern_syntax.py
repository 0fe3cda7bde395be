"""What is accepted and refused; what patterns find is in the tests of the functions."""

from __future__ import annotations

import pytest

from snapline.sql.expressions.java_pattern_syntax import JavaPatternParser, PatternError, is_never_empty
from snapline.sql.expressions.registry import UnsupportedError


def _parsed(pattern: str) -> JavaPatternParser:
    parser = JavaPatternParser(pattern)
    parser.parse()
    return parser


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "[", "*a", "a**", "a{,2}", "{", "a{2", "\\", "\\y", "[z-a]", "(?<1x>a)", "(?k)a", "\\k<x>", "\\xg0"],
)
def test_what_java_refuses_is_an_error(pattern: str) -> None:
    with pytest.raises(PatternError):
        _parsed(pattern)


@pytest.mark.parametrize("pattern", [r"\G", r"\X", r"\p{IsLatin}", r"(?U)a", r"\2(a)", r"(?iu)[a-z]", r"\b{g}"])
def test_what_python_has_not_is_unsupported(pattern: str) -> None:
    with pytest.raises(UnsupportedError):
        _parsed(pattern)


@pytest.mark.parametrize("pattern", [r"\bfoo", "(?=a)", "a++", "(?>a)b", r"(a)\1", "a$b", "(?m)^a"])
def test_what_re2_reads_in_another_way_is_for_python_only(pattern: str) -> None:
    assert not _parsed(pattern).is_portable


def test_quotation_is_of_single_characters() -> None:
    assert "".join(_parsed(r"\Qa.b\E+").python) == r"a\.(?:b)+"


def test_flags_end_with_their_group() -> None:
    assert "".join(_parsed("(?:(?i)a)a").re2) == r"(?:[\x{41}\x{61}])a"


def test_groups_in_repetitions_are_not_exact() -> None:
    assert not _parsed("(a|b)*c").is_exact
    assert not _parsed("(?:a*)*").is_exact
    assert _parsed("(a|b)c+").is_exact


def test_empty_matches_are_foreseen() -> None:
    assert is_never_empty("a+")
    assert not is_never_empty("a*")
    assert not is_never_empty(r"(?=a)")

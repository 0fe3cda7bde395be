from __future__ import annotations

import re

from snapline.sql.expressions.character_classes import units_class, word_boundary
from snapline.sql.expressions.code_points import characters, complement

FACE = "\ud83d\ude00"
"""One character beyond 16 bits, as two halves."""


def test_a_class_of_units_takes_both_halves_of_a_character() -> None:
    assert re.fullmatch(units_class(complement(characters("a"))), FACE)
    assert re.fullmatch(units_class(characters("a\U0001f600")), FACE)
    assert not re.match(units_class(characters("a\U0001f601")), FACE)


def test_one_half_is_a_character_only_where_it_is_alone() -> None:
    others = re.compile(units_class(complement(characters("a"))))
    assert others.match("\ud83da")
    assert others.match(FACE, 1)
    assert not re.match(units_class(((0, 0xFFFF),)), FACE)


def test_ranges_over_several_high_halves() -> None:
    wide = re.compile(units_class(((0x10001, 0x10FFFE),)))
    assert all(wide.fullmatch(pair) for pair in ("\ud800\udc01", "\ud900\udc00", "\udbff\udffe"))
    assert not any(wide.fullmatch(pair) for pair in ("\ud800\udc00", "\udbff\udfff"))


def test_marks_belong_to_words_and_numbers_that_are_no_digits_do_not() -> None:
    found = [match.start() for match in re.finditer(word_boundary(), "z\u0301 \u00b2")]
    assert found == [0, 2]

"""Strings made of others. Values as Spark should give them; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, call, column, condition, literal, values
from tests.text_kit import Raised, answer

GIVES: Mapping[str, pa.DataType] = {}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Concat', ('a', pa.scalar(None, pa.string())), {}, None),
    ('Concat', ('a', 'b', 'c'), {}, 'abc'),
    ('ConcatWs', (',', 'a', 'b'), {}, 'a,b'),
    ('ConcatWs', (',', 'a', pa.scalar(None, pa.string()), 'b'), {}, 'a,b'),
    ('ConcatWs', (',', pa.scalar(None, pa.string()), pa.scalar(None, pa.string())), {}, ''),
    ('ConcatWs', (',',), {}, ''),
    ('ConcatWs', (',', ''), {}, ''),
    ('ConcatWs', (pa.scalar(None, pa.string()), 'a'), {}, None),
    ('StringRepeat', ('abc', 0), {}, ''),
    ('StringRepeat', ('', 10), {}, ''),
    ('StringRepeat', ('abc', 2), {}, 'abcabc'),
    ('StringRepeat', ('abc', 1), {}, 'abc'),
    ('StringRepeat', ('abc', -1), {}, ''),
    ('StringRepeat', ('aß😀', -1), {}, ''),
    ('StringRepeat', ('', 1), {}, ''),
    ('StringRepeat', ('', 2), {}, ''),
    ('StringSpace', (2,), {}, '  '),
    ('StringSpace', (0,), {}, ''),
    ('StringSpace', (1,), {}, ' '),
    ('StringSpace', (-1,), {}, ''),
    ('StringSpace', (10,), {}, '          '),
    ('StringReplace', ('abcabc', 'b', 'xx'), {}, 'axxcaxxc'),
    ('StringReplace', ('abc', '', 'x'), {}, 'abc'),
    ('StringReplace', ('aßé', 'ß', ''), {}, 'aé'),
    ('StringReplace', ('aaa', 'aa', 'b'), {}, 'ba'),
    ('StringReplace', ('abc', 'b', ''), {}, 'ac'),
    ('StringTranslate', ('', 'a', 'b'), {}, ''),
    ('StringTranslate', ('abc', '', 'x'), {}, 'abc'),
    ('StringTranslate', ('abc', 'ab', '1'), {}, '1c'),
    ('StringTranslate', ('a😀b', '😀b', 'x😁'), {}, 'ax😁'),
    ('StringTranslate', ('abcab', 'aab', '123'), {}, '13c13'),
    ('StringTranslate', ('AaBbCc', 'abc', '123'), {}, 'A1B2C3'),
    ('Elt', (3, 'a', pa.scalar(None, pa.string())), {"failOnError": True}, Raised("INVALID_ARRAY_INDEX")),
    ('Elt', (0, 'a', 'b'), {"failOnError": True}, Raised("INVALID_ARRAY_INDEX")),
    ('Elt', (1, 'a', pa.scalar(None, pa.string())), {"failOnError": True}, 'a'),
    ('Elt', (3, 'a', 'b'), {"failOnError": True}, Raised("INVALID_ARRAY_INDEX")),
    ('Elt', (-1, 'a', 'b'), {"failOnError": True}, Raised("INVALID_ARRAY_INDEX")),
    ('Elt', (2, 'a', pa.scalar(None, pa.string())), {"failOnError": True}, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, given: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *given, gives=GIVES.get(kind), **arguments) == expected


def test_lists_are_joined_without_their_nulls() -> None:
    lists = pa.array([["a", None, "b"], [], None, [None]])
    texts = pa.array(["c", "c", None, None])
    expression = applied("ConcatWs", pa.string(), pa.array([","] * 4), lists, texts)
    assert values(expression, pa.array([","] * 4), lists, texts) == ["a,b,c", "c", "", ""]
    separators = pa.array([None, "-", "-", None], pa.string())
    expression = applied("ConcatWs", pa.string(), separators, lists, texts)
    assert values(expression, separators, lists, texts) == [None, "c", "", None]


def test_no_arguments_are_an_empty_text() -> None:
    assert answer("Concat") == ""
    assert answer("ConcatWs", ",") == ""


def test_lists_are_concatenated() -> None:
    left, right = pa.array([[1, 2], None, [], [3]]), pa.array([[5], [1], [6, None], []])
    expression = applied("Concat", left.type, left, right)
    assert values(expression, left, right) == [[1, 2, 5], None, [6, None], [3]]
    assert values(expression, left[2:], right[2:]) == [[6, None], [3]]


def test_a_wrong_index_is_null_in_legacy_mode() -> None:
    assert answer("Elt", 3, "a", "b", failOnError=False) is None


def test_concat_computes_all_its_arguments() -> None:
    texts, wrong = pa.array([None], pa.string()), pa.array([3], pa.int32())
    raising = call("Elt", pa.string(), column(1, pa.int32()), literal("a", pa.string()), failOnError=True)
    expression = call("Concat", pa.string(), column(0, pa.string()), raising)
    assert condition(expression, texts, wrong) == "INVALID_ARRAY_INDEX"

"""Searches and distances. Values as Spark should give them; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, values
from tests.text_kit import answer

GIVES: Mapping[str, pa.DataType] = {
    "Contains": pa.bool_(),
    "StartsWith": pa.bool_(),
    "EndsWith": pa.bool_(),
    "BinaryPredicate": pa.bool_(),
    "StringInstr": pa.int32(),
    "StringLocate": pa.int32(),
    "FindInSet": pa.int32(),
    "Levenshtein": pa.int32(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Contains', ('aßé😀b', 'zz'), {}, False),
    ('Contains', ('abcabc', ''), {}, True),
    ('Contains', ('abcabc', '😀'), {}, False),
    ('Contains', ('abcabc', 'é'), {}, False),
    ('Contains', ('aßé😀b', '😀'), {}, True),
    ('Contains', ('', ''), {}, True),
    ('Contains', ('', 'é'), {}, False),
    ('Contains', ('aßé😀b', ''), {}, True),
    ('Contains', ('aßé😀b', 'b'), {}, True),
    ('Contains', ('abcabc', 'b'), {}, True),
    ('StartsWith', ('abcabc', 'b'), {}, False),
    ('StartsWith', ('', 'zz'), {}, False),
    ('StartsWith', ('', 'b'), {}, False),
    ('StartsWith', ('aßé😀b', 'b'), {}, False),
    ('StartsWith', ('abcabc', '😀'), {}, False),
    ('StartsWith', ('abcabc', ''), {}, True),
    ('StartsWith', ('aßé😀b', '😀'), {}, False),
    ('StartsWith', ('', ''), {}, True),
    ('EndsWith', ('abcabc', 'zz'), {}, False),
    ('EndsWith', ('', ''), {}, True),
    ('EndsWith', ('aßé😀b', ''), {}, True),
    ('EndsWith', ('aßé😀b', '😀'), {}, False),
    ('EndsWith', ('aßé😀b', 'zz'), {}, False),
    ('EndsWith', ('', 'zz'), {}, False),
    ('EndsWith', ('', 'b'), {}, False),
    ('EndsWith', ('aßé😀b', 'b'), {}, True),
    ('BinaryPredicate', (b'\x01\x02\x03', b'\x01'), {"prettyName": "startswith"}, True),
    ('BinaryPredicate', (b'\x01\x02\x03', b'\x01'), {"prettyName": "endswith"}, False),
    ('BinaryPredicate', (b'\x01', b''), {"prettyName": "contains"}, True),
    ('BinaryPredicate', (b'\x01\x02\x03', b'\x02'), {"prettyName": "contains"}, True),
    ('StringInstr', ('aßé😀b', 'b'), {}, 5),
    ('StringInstr', ('', '😀'), {}, 0),
    ('StringInstr', ('aßé😀b', 'é'), {}, 3),
    ('StringInstr', ('abcabc', 'é'), {}, 0),
    ('StringInstr', ('', 'zz'), {}, 0),
    ('StringInstr', ('aßé😀b', ''), {}, 1),
    ('StringInstr', ('abcabc', ''), {}, 1),
    ('StringInstr', ('aßé😀b', '😀'), {}, 4),
    ('StringInstr', ('abcabc', 'zz'), {}, 0),
    ('StringInstr', ('aßé😀b', 'zz'), {}, 0),
    ('StringInstr', ('', 'b'), {}, 0),
    ('StringInstr', ('abcabc', 'b'), {}, 2),
    ('StringInstr', ('', ''), {}, 1),
    ('StringInstr', ('', 'é'), {}, 0),
    ('StringInstr', ('abcabc', '😀'), {}, 0),
    ('StringLocate', ('zz', 'abcabc', 1), {}, 0),
    ('StringLocate', ('😀', 'abcabc', 5), {}, 0),
    ('StringLocate', ('é', '', 1), {}, 0),
    ('StringLocate', ('zz', 'aßé😀b', 5), {}, 0),
    ('StringLocate', ('😀', 'abcabc', 0), {}, 0),
    ('StringLocate', ('b', 'aßé😀b', 10), {}, 0),
    ('StringLocate', ('', 'abcabc', 5), {}, 1),
    ('StringLocate', ('😀', 'abcabc', -1), {}, 0),
    ('StringLocate', ('é', '', 5), {}, 0),
    ('StringLocate', ('b', '', 0), {}, 0),
    ('StringLocate', ('é', '', -1), {}, 0),
    ('StringLocate', ('', 'abcabc', 2), {}, 1),
    ('StringLocate', ('', 'abcabc', 10), {}, 1),
    ('StringLocate', ('é', 'abcabc', 2), {}, 0),
    ('StringLocate', ('', 'aßé😀b', 1), {}, 1),
    ('StringLocate', ('zz', 'abcabc', -1), {}, 0),
    ('StringLocate', ('zz', 'abcabc', 2), {}, 0),
    ('StringLocate', ('😀', 'aßé😀b', 5), {}, 0),
    ('StringLocate', ('zz', 'aßé😀b', 2), {}, 0),
    ('StringLocate', ('b', '', 5), {}, 0),
    ('StringLocate', ('b', 'abcabc', 5), {}, 5),
    ('StringLocate', ('zz', '', 5), {}, 0),
    ('StringLocate', ('😀', '', 0), {}, 0),
    ('StringLocate', ('zz', 'aßé😀b', 0), {}, 0),
    ('StringLocate', ('😀', 'abcabc', 2), {}, 0),
    ('StringLocate', ('', '', 0), {}, 0),
    ('StringLocate', ('', 'abcabc', -1), {}, 0),
    ('StringLocate', ('é', 'aßé😀b', 1), {}, 3),
    ('StringLocate', ('', 'abcabc', 1), {}, 1),
    ('StringLocate', ('b', '', 10), {}, 0),
    ('FindInSet', ('', ''), {}, 1),
    ('FindInSet', ('ab', ',a'), {}, 0),
    ('FindInSet', ('a,b', ',a'), {}, 0),
    ('FindInSet', ('ab', ''), {}, 0),
    ('FindInSet', ('', 'a,b,é'), {}, 0),
    ('FindInSet', ('', 'ab,ab'), {}, 0),
    ('FindInSet', ('a', ',a'), {}, 2),
    ('FindInSet', ('a', 'a,b,é'), {}, 1),
    ('FindInSet', ('é', 'a,b,é'), {}, 3),
    ('FindInSet', ('a,b', 'b,'), {}, 0),
    ('FindInSet', ('é', 'ab,ab'), {}, 0),
    ('FindInSet', ('é', 'b,'), {}, 0),
    ('FindInSet', ('a', 'ab,ab'), {}, 0),
    ('FindInSet', ('a,b', 'a,b,é'), {}, 0),
    ('FindInSet', ('', ',a'), {}, 1),
    ('Levenshtein', ('', 'sitting', 2), {}, -1),
    ('Levenshtein', ('', 'aß'), {}, 2),
    ('Levenshtein', ('aß😀', '', 5), {}, 3),
    ('Levenshtein', ('kitten', 'aß', 1), {}, -1),
    ('Levenshtein', ('kitten', 'aß', 3), {}, -1),
    ('Levenshtein', ('kitten', 'sitting', 5), {}, 3),
    ('Levenshtein', ('', 'aß', 5), {}, 2),
    ('Levenshtein', ('kitten', 'sitting'), {}, 3),
    ('Levenshtein', ('aß😀', '', 1), {}, -1),
    ('Levenshtein', ('', 'aß', 3), {}, 2),
    ('Levenshtein', ('', '', 1), {}, 0),
    ('Levenshtein', ('', 'sitting'), {}, 7),
    ('Levenshtein', ('aß😀', 'sitting', 0), {}, -1),
    ('Levenshtein', ('aß😀', 'sitting'), {}, 7),
    ('Levenshtein', ('aß😀', '', 3), {}, 3),
    ('Levenshtein', ('kitten', '', 0), {}, -1),
    ('Levenshtein', ('kitten', 'aß', 2), {}, -1),
    ('Levenshtein', ('aß😀', '', 0), {}, -1),
    ('Levenshtein', ('', 'aß', 2), {}, 2),
    ('Levenshtein', ('kitten', '', 1), {}, -1),
    ('Levenshtein', ('kitten', 'aß', 0), {}, -1),
    ('Levenshtein', ('aß😀', 'aß', 2), {}, 1),
    ('Levenshtein', ('', '', 5), {}, 0),
    ('Levenshtein', ('kitten', '', 2), {}, -1),
    ('Levenshtein', ('aß😀', 'sitting', 5), {}, -1),
    ('Levenshtein', ('aß😀', 'sitting', 2), {}, -1),
    ('Levenshtein', ('aß😀', 'sitting', 1), {}, -1),
    ('Levenshtein', ('aß😀', 'sitting', 3), {}, -1),
    ('Levenshtein', ('kitten', '', 3), {}, -1),
    ('Levenshtein', ('kitten', 'sitting', 0), {}, -1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, given: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *given, gives=GIVES.get(kind), **arguments) == expected


def test_a_null_position_is_no_position() -> None:
    assert answer("StringLocate", "a", "abc", pa.scalar(None, pa.int32()), gives=pa.int32()) == 0
    texts, starts = pa.array(["abca", None, "abc"]), pa.array([2, 1, None], pa.int32())
    parts = pa.array(["a", "a", "a"])
    expression = applied("StringLocate", pa.int32(), parts, texts, starts)
    assert values(expression, parts, texts, starts) == [4, None, 0]

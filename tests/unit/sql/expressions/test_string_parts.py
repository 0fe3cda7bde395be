"""Parts of strings. Values as Spark should give them in ANSI mode; `python -m benchmarks.expressions` asks Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from tests.expression_kit import applied, values
from tests.text_kit import answer

GIVES: Mapping[str, pa.DataType] = {
    "BinaryPad": pa.binary(),
}

ANSWERS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ('Substring', ('', -1, -1), {}, ''),
    ('Substring', ('', -2, 2147483647), {}, ''),
    ('Substring', ('aßé😀b', 100, 0), {}, ''),
    ('Substring', ('abc', -2, 0), {}, ''),
    ('Substring', ('', 2, 2147483647), {}, ''),
    ('Substring', ('abc', 100, -2147483648), {}, ''),
    ('Substring', ('  Spark  ', 2147483647, 2147483647), {}, ''),
    ('Substring', ('aßé😀b', -1, 1), {}, 'b'),
    ('Substring', ('abc', -2147483648, 0), {}, ''),
    ('Substring', ('aßé😀b', 1, 0), {}, ''),
    ('Substring', ('abc', -1, 2147483647), {}, 'c'),
    ('Substring', ('aBc dEf', 2147483647, 2147483647), {}, ''),
    ('Substring', ('abc', -2, 2147483647), {}, 'bc'),
    ('Substring', ('abc', 2, 3), {}, 'bc'),
    ('Substring', ('abc', 0, 2147483647), {}, 'abc'),
    ('Substring', ('  Spark  ', 1, 2147483647), {}, '  Spark  '),
    ('Substring', ('aßé😀b', -1, 0), {}, ''),
    ('Substring', ('', 2, -1), {}, ''),
    ('Substring', ('', 0, 1), {}, ''),
    ('Substring', ('abc', 1, 2147483647), {}, 'abc'),
    ('Substring', ('aßé😀b', -7, 3), {}, 'a'),
    ('Substring', ('abc', 2147483647, -2147483648), {}, ''),
    ('Substring', ('', 2147483647, 3), {}, ''),
    ('Substring', ('aßé😀b', -2, -2147483648), {}, ''),
    ('Substring', ('aBc dEf', 100, 2147483647), {}, ''),
    ('Substring', ('', -7, 0), {}, ''),
    ('Substring', ('', 100, 3), {}, ''),
    ('Substring', ('abc', 2147483647, 2147483647), {}, ''),
    ('Substring', ('xxabcxx', 100, 2147483647), {}, ''),
    ('Substring', ('aßé😀b', -1, 3), {}, 'b'),
    ('SubstringIndex', ('a.b.c.d', '.', -10), {}, 'a.b.c.d'),
    ('SubstringIndex', ('', 'x', -2), {}, ''),
    ('SubstringIndex', ('a||b||c', 'x', 0), {}, ''),
    ('SubstringIndex', ('', '.', 1), {}, ''),
    ('SubstringIndex', ('a||b||c', 'aa', -10), {}, 'a||b||c'),
    ('SubstringIndex', ('aaaa', '||', -10), {}, 'aaaa'),
    ('SubstringIndex', ('.a.', '||', 10), {}, '.a.'),
    ('SubstringIndex', ('a.b.c.d', '', 10), {}, ''),
    ('SubstringIndex', ('a||b||c', '', -1), {}, ''),
    ('SubstringIndex', ('a||b||c', '', 10), {}, ''),
    ('SubstringIndex', ('aaaa', 'aa', -1), {}, ''),
    ('SubstringIndex', ('aaaa', '.', 0), {}, ''),
    ('SubstringIndex', ('.a.', '||', 0), {}, ''),
    ('SubstringIndex', ('', 'x', -10), {}, ''),
    ('SubstringIndex', ('.a.', '', -1), {}, ''),
    ('SubstringIndex', ('', '', 0), {}, ''),
    ('SubstringIndex', ('', 'x', 2), {}, ''),
    ('SubstringIndex', ('aaaa', '||', -2), {}, 'aaaa'),
    ('SubstringIndex', ('a||b||c', 'aa', 0), {}, ''),
    ('SubstringIndex', ('aaaa', 'aa', -2), {}, 'a'),
    ('SubstringIndex', ('aaaa', '', 1), {}, ''),
    ('SubstringIndex', ('.a.', 'x', -1), {}, '.a.'),
    ('SubstringIndex', ('.a.', '.', 10), {}, '.a.'),
    ('SubstringIndex', ('a||b||c', '||', -1), {}, 'c'),
    ('SubstringIndex', ('', '||', 1), {}, ''),
    ('SubstringIndex', ('aaaa', 'aa', 0), {}, ''),
    ('SubstringIndex', ('.a.', 'aa', -10), {}, '.a.'),
    ('SubstringIndex', ('a||b||c', 'x', -10), {}, 'a||b||c'),
    ('SubstringIndex', ('', '||', -10), {}, ''),
    ('SubstringIndex', ('', '||', 0), {}, ''),
    ('SubstringIndex', ('a.b.c.d', 'aa', 0), {}, ''),
    ('SubstringIndex', ('', '.', 0), {}, ''),
    ('SubstringIndex', ('.a.', 'x', 1), {}, '.a.'),
    ('SubstringIndex', ('', '', 2), {}, ''),
    ('SubstringIndex', ('.a.', 'x', 10), {}, '.a.'),
    ('SubstringIndex', ('a.b.c.d', '', 0), {}, ''),
    ('SubstringIndex', ('a.b.c.d', 'aa', -10), {}, 'a.b.c.d'),
    ('SubstringIndex', ('.a.', '', 10), {}, ''),
    ('SubstringIndex', ('aaaa', '', -2), {}, ''),
    ('SubstringIndex', ('.a.', 'aa', 2), {}, '.a.'),
    ('StringTrim', ('ǆabc',), {}, 'ǆabc'),
    ('StringTrim', (' ',), {}, ''),
    ('StringTrim', ('', 'x'), {}, ''),
    ('StringTrim', ('xyxy', 'xy'), {}, ''),
    ('StringTrim', ('  a ', ' '), {}, 'a'),
    ('StringTrim', ('éaé', 'é '), {}, 'a'),
    ('StringTrim', ('ΑΣ ΟΔΟΣ',), {}, 'ΑΣ ΟΔΟΣ'),
    ('StringTrim', ('xxabcxx', ''), {}, 'xxabcxx'),
    ('StringTrim', ('',), {}, ''),
    ('StringTrim', ('', 'xy'), {}, ''),
    ('StringTrim', ('éaé', ' '), {}, 'éaé'),
    ('StringTrim', ('aßé😀b',), {}, 'aßé😀b'),
    ('StringTrim', ('ﬁx',), {}, 'ﬁx'),
    ('StringTrimLeft', ('xxabcxx',), {}, 'xxabcxx'),
    ('StringTrimLeft', ('ΑΣ ΟΔΟΣ',), {}, 'ΑΣ ΟΔΟΣ'),
    ('StringTrimLeft', ('a.b.c.d',), {}, 'a.b.c.d'),
    ('StringTrimLeft', ('aßé😀b',), {}, 'aßé😀b'),
    ('StringTrimLeft', ('a,b,,c',), {}, 'a,b,,c'),
    ('StringTrimLeft', ('abc',), {}, 'abc'),
    ('StringTrimLeft', ('ß',), {}, 'ß'),
    ('StringTrimLeft', ('aaaa',), {}, 'aaaa'),
    ('StringTrimLeft', ('aBc dEf',), {}, 'aBc dEf'),
    ('StringTrimLeft', ('İ',), {}, 'İ'),
    ('StringTrimRight', ('aaaa',), {}, 'aaaa'),
    ('StringTrimRight', ('ǆabc',), {}, 'ǆabc'),
    ('StringTrimRight', ('İ',), {}, 'İ'),
    ('StringTrimRight', ('',), {}, ''),
    ('StringTrimRight', ('  Spark  ',), {}, '  Spark'),
    ('StringTrimRight', (' ',), {}, ''),
    ('StringTrimRight', ('aBc dEf',), {}, 'aBc dEf'),
    ('StringTrimRight', ('ΑΣ ΟΔΟΣ',), {}, 'ΑΣ ΟΔΟΣ'),
    ('StringTrimRight', ('xxabcxx',), {}, 'xxabcxx'),
    ('StringTrimRight', ('ﬁx',), {}, 'ﬁx'),
    ('StringLPad', ('aß😀', 10, ' '), {}, '       aß😀'),
    ('StringLPad', ('aß😀', 2, 'xy'), {}, 'aß'),
    ('StringLPad', ('abc', 0, 'xy'), {}, ''),
    ('StringLPad', ('abc', 1, ' '), {}, 'a'),
    ('StringLPad', ('', 1, 'é'), {}, 'é'),
    ('StringLPad', ('abc', -1, ''), {}, ''),
    ('StringLPad', ('', 1, 'xy'), {}, 'x'),
    ('StringLPad', ('aß😀', 0, 'xy'), {}, ''),
    ('StringLPad', ('aß😀', -1, ' '), {}, ''),
    ('StringLPad', ('aß😀', -1, ''), {}, ''),
    ('StringLPad', ('', 10, ' '), {}, '          '),
    ('StringLPad', ('aß😀', -1, 'xy'), {}, ''),
    ('StringLPad', ('abc', -1, 'xy'), {}, ''),
    ('StringLPad', ('abc', -1, ' '), {}, ''),
    ('StringLPad', ('', 0, ' '), {}, ''),
    ('StringLPad', ('', 0, 'é'), {}, ''),
    ('StringLPad', ('', 10, ''), {}, ''),
    ('StringLPad', ('aß😀', -1, 'é'), {}, ''),
    ('StringLPad', ('abc', 10, ''), {}, 'abc'),
    ('StringLPad', ('aß😀', 1, 'é'), {}, 'a'),
    ('StringRPad', ('aß😀', -1, 'xy'), {}, ''),
    ('StringRPad', ('', 0, 'xy'), {}, ''),
    ('StringRPad', ('aß😀', 10, 'xy'), {}, 'aß😀xyxyxyx'),
    ('StringRPad', ('abc', 10, 'xy'), {}, 'abcxyxyxyx'),
    ('StringRPad', ('abc', 0, 'xy'), {}, ''),
    ('StringRPad', ('', 1, 'xy'), {}, 'x'),
    ('StringRPad', ('abc', 2, 'xy'), {}, 'ab'),
    ('StringRPad', ('', 2, 'xy'), {}, 'xy'),
    ('StringRPad', ('aß😀', 2, ' '), {}, 'aß'),
    ('StringRPad', ('aß😀', 2, 'xy'), {}, 'aß'),
    ('StringRPad', ('aß😀', 10, ' '), {}, 'aß😀       '),
    ('StringRPad', ('aß😀', -1, ' '), {}, ''),
    ('StringRPad', ('abc', -1, 'xy'), {}, ''),
    ('StringRPad', ('', 1, ' '), {}, ' '),
    ('StringRPad', ('abc', 0, ' '), {}, ''),
    ('StringRPad', ('', -1, 'xy'), {}, ''),
    ('StringRPad', ('aß😀', 0, 'xy'), {}, ''),
    ('StringRPad', ('abc', 2, ' '), {}, 'ab'),
    ('StringRPad', ('', 2, ' '), {}, '  '),
    ('StringRPad', ('abc', 1, ' '), {}, 'a'),
    ('BinaryPad', (b'\x01\x02', 0, b'\xab'), {"funcName": "lpad"}, b''),
    ('BinaryPad', (b'\x01\x02', 1, b'\xab\xcd'), {"funcName": "rpad"}, b'\x01'),
    ('BinaryPad', (b'\x01\x02', 0, b''), {"funcName": "rpad"}, b''),
    ('BinaryPad', (b'\x01\x02', 1, b''), {"funcName": "rpad"}, b'\x01'),
    ('BinaryPad', (b'\x01\x02', 5, b'\xab\xcd'), {"funcName": "rpad"}, b'\x01\x02\xab\xcd\xab'),
    ('BinaryPad', (b'\x01\x02', 5, b'\xab'), {"funcName": "lpad"}, b'\xab\xab\xab\x01\x02'),
    ('BinaryPad', (b'\x01\x02', -1, b'\xab\xcd'), {"funcName": "rpad"}, b''),
    ('BinaryPad', (b'\x01\x02', 0, b'\xab\xcd'), {"funcName": "rpad"}, b''),
    ('Overlay', ('Spark', 'ab', 7, 4), {}, 'Sparkab'),
    ('Overlay', ('Spark SQL', 'ANSI ', -1, 0), {}, 'ANSI L'),
    ('Overlay', ('Spark SQL', 'ANSI ', 6, 0), {}, 'SparkANSI  SQL'),
    ('Overlay', ('Spark SQL', '_', 3, -1), {}, 'Sp_rk SQL'),
    ('Overlay', ('Spark SQL', 'ANSI ', 0, 0), {}, 'ANSI Spark SQL'),
    ('Overlay', ('Spark SQL', '_', 0, -1), {}, '_Spark SQL'),
    ('Overlay', ('Spark', 'ab', 2147483647, 4), {}, 'Sparkab'),
    ('Overlay', ('Spark SQL', 'ANSI ', 1, 0), {}, 'ANSI Spark SQL'),
    ('Overlay', ('aß😀', '_', 1, 1), {}, '_ß😀'),
    ('Overlay', ('Spark', 'ab', 0, 4), {}, 'abrk'),
    ('Overlay', ('Spark SQL', '_', 7, -1), {}, 'Spark _QL'),
    ('Overlay', ('aß😀', '_', 0, 1), {}, '_aß😀'),
    ('Overlay', ('aß😀', '_', -1, 1), {}, '_aß😀'),
    ('Overlay', ('Spark SQL', '_', 6, -1), {}, 'Spark_SQL'),
    ('Overlay', ('Spark SQL', '_', -3, -1), {}, '_QL'),
    ('Overlay', ('aß😀', '_', 3, 1), {}, 'aß_'),
    ('Overlay', ('aß😀', '_', 10, 1), {}, 'aß😀_'),
    ('Overlay', ('Spark SQL', '_', -1, -1), {}, '_Spark SQL'),
    ('Overlay', ('Spark', 'ab', -3, 4), {}, 'abSpark'),
    ('Reverse', ('a.b.c.d',), {}, 'd.c.b.a'),
    ('Reverse', ('abc',), {}, 'cba'),
    ('Reverse', ('',), {}, ''),
    ('Reverse', ('aaaa',), {}, 'aaaa'),
    ('Reverse', ('İ',), {}, 'İ'),
    ('Reverse', ('a,b,,c',), {}, 'c,,b,a'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "arguments", "expected"), ANSWERS)
def test_answers_are_those_of_spark(
    kind: str, given: tuple[Any, ...], arguments: dict[str, Any], expected: Any
) -> None:
    assert answer(kind, *given, gives=GIVES.get(kind), **arguments) == expected


def test_positions_may_differ_from_row_to_row() -> None:
    texts = pa.array(["Spark", "aßé😀b", None, "abc"])
    positions, lengths = pa.array([2, -3, 1, None], pa.int32()), pa.array([3, 2, 1, 1], pa.int32())
    expression = applied("Substring", pa.string(), texts, positions, lengths)
    assert values(expression, texts, positions, lengths) == ["par", "é😀", None, None]


def test_bytes_are_cut_and_replaced() -> None:
    assert answer("Substring", b"\x01\x02\x03", -2, 1, gives=pa.binary()) == b"\x02"
    assert answer("Overlay", b"\x01\x02\x03", b"\xff", 2, -1, gives=pa.binary()) == b"\x01\xff\x03"


def test_delimiters_split_texts() -> None:
    type = pa.list_(pa.string())
    assert answer("StringSplitSQL", "a,b,,c", ",", gives=type) == ["a", "b", "", "c"]
    assert answer("StringSplitSQL", "a,b", "", gives=type) == ["a,b"]
    assert answer("StringSplitSQL", "", ",", gives=type) == [""]


def test_lists_are_reversed() -> None:
    lists = pa.array([[1, 2], None, [], [3, None]])
    expression = applied("Reverse", lists.type, lists)
    assert values(expression, lists) == [[2, 1], None, [], [None, 3]]
    assert values(expression, lists[3:]) == [[None, 3]]


def test_the_lowest_position_is_before_all_text() -> None:
    assert answer("Overlay", b"\x00", b"", -(2**31), -1, gives=pa.binary()) == b"\x00"
    assert answer("Overlay", "abc", "", -(2**31), -3) == "abc"

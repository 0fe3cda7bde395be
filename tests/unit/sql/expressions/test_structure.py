from __future__ import annotations

import pyarrow as pa
from tests.expression_kit import call, column, literal

from snapline.sql.expressions.structure import Structures, is_deterministic

INT = pa.int32()


def test_equal_trees_have_equal_numbers() -> None:
    first = call("Add", INT, column(0, INT), literal(1, INT), evalMode="ANSI")
    second = call("Add", INT, column(0, INT), literal(1, INT), evalMode="ANSI")
    other = call("Add", INT, column(0, INT), literal(1, INT), evalMode="LEGACY")
    structures = Structures([first, second, other])
    assert structures.number(first) == structures.number(second) != structures.number(other)
    assert structures.is_repeated(first)
    assert not structures.is_repeated(other)


def test_literals_that_python_finds_equal_are_told_apart() -> None:
    structures = Structures([])
    numbers = [structures.number(literal(value, pa.float64())) for value in (0.0, -0.0, float("nan"), float("nan"))]
    assert len(set(numbers)) == 3
    assert numbers[2] == numbers[3]


def test_random_values_are_not_shared() -> None:
    random = call("Add", INT, call("Rand", INT, deterministic=False), literal(1, INT))
    assert not is_deterministic(random)
    assert not Structures([random, random]).is_repeated(random)

"""Functions of texts by hand: what a kernel answers for constants and for columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from tests.expression_kit import array_of, call, column, literal

from snapline.sql.expressions.registry import SparkError


class Raised(NamedTuple):
    """The name of the error that is raised instead."""

    condition: str


def answer(kind: str, *values: Any, gives: pa.DataType | None = None, **arguments: Any) -> Any:
    """What an expression gives for these values, which must be the same whether they are constants or columns.

    Values are Python's, integers with 32 bits, or `pa.Scalar` for other types.
    """
    type = gives or pa.string()
    scalars = [value if isinstance(value, pa.Scalar) else _scalar(value) for value in values]
    answers = [_answer(kind, type, scalars, columns, arguments) for columns in (0, 1, len(scalars))]
    assert answers[0] == answers[1] == answers[2] or answers[0] != answers[0], answers
    return answers[0]


def _scalar(value: Any) -> pa.Scalar:
    return pa.scalar(value, pa.int32()) if isinstance(value, int) and not isinstance(value, bool) else pa.scalar(value)


def _answer(kind: str, type: pa.DataType, scalars: list[pa.Scalar], columns: int, arguments: dict[str, Any]) -> Any:
    """The answer where the first values are columns, with a null between two equal rows, and the others constants."""
    arrays = [pa.repeat(scalar, 3) for scalar in scalars[:columns]]
    arrays = [pa.concat_arrays([array[:1], pa.nulls(1, array.type), array[2:]]) for array in arrays]
    constants = [literal(scalar.as_py(), scalar.type) for scalar in scalars[columns:]]
    given = [column(position, array.type) for position, array in enumerate(arrays)]
    expression = call(kind, type, *given, *constants, **arguments)
    try:
        result = array_of(expression, *(arrays or [pa.array([0])])).to_pylist()
    except SparkError as error:
        return Raised(error.condition)
    assert result[0] == result[-1] or result[0] != result[0]
    return result[-1]

"""Evaluates expressions with Snapline and compares with what Spark answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import SparkError
from snapline.sql.plans.trees import Attribute, Expression

Answer = tuple[str, Any]
"""`("value", plain value)` or `("error", condition)`."""


def own_answers(expression: Expression, attributes: Sequence[Attribute], batch: pa.RecordBatch) -> list[Answer]:
    """The value or the error of an expression for each row. Raises `UnsupportedError`."""
    program = Program([expression], attributes)
    try:
        return _values(program, batch, expression)
    except SparkError:
        return [_row_answer(program, batch.slice(row, 1), expression) for row in range(batch.num_rows)]


def _row_answer(program: Program, row: pa.RecordBatch, expression: Expression) -> Answer:
    try:
        return _values(program, row, expression)[0]
    except SparkError as error:
        return ("error", error.condition)


def _values(program: Program, batch: pa.RecordBatch, expression: Expression) -> list[Answer]:
    array = program.arrays(batch)[0]
    if not same_type(array.type, expression.type):
        raise TypeError(f"{array.type} instead of {expression.type}")
    return [("value", value) for value in plain(array)]


def same_type(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether types are equal, whatever the names of elements and whether they may be null."""
    if pa.types.is_nested(left) and left.id == right.id and left.num_fields == right.num_fields:
        names = not pa.types.is_struct(left) or [field.name for field in left] == [field.name for field in right]
        return names and all(same_type(left.field(n).type, right.field(n).type) for n in range(left.num_fields))
    return bool(left == right)


def spark_answers(array: pa.Array, errors: Sequence[str]) -> list[Answer]:
    """Spark's values and errors in the same form."""
    return [("error", error) if error else ("value", value) for value, error in zip(plain(array), errors, strict=True)]


def plain(array: pa.Array) -> list[Any]:
    """Values that Python compares exactly: texts as bytes, times as integers, NaN as a word, -0.0 apart from 0.0."""
    type = array.type
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return list(array.cast(pa.large_string()).cast(pa.large_binary()).to_pylist())
    if pa.types.is_timestamp(type) or pa.types.is_duration(type):
        return list(array.view(pa.int64()).to_pylist())
    if pa.types.is_date32(type):
        return list(array.view(pa.int32()).to_pylist())
    if pa.types.is_floating(type):
        return [None if value is None else _exact(value) for value in array.to_pylist()]
    if pa.types.is_map(type):
        return _rows(array, list(zip(plain(array.keys), plain(array.items), strict=True)))
    if pa.types.is_list(type):
        return _rows(array, plain(array.values))
    if pa.types.is_struct(type):
        columns = [plain(child) for child in array.flatten()]
        there = array.is_valid().to_pylist()
        return [tuple(column[row] for column in columns) if there[row] else None for row in range(len(array))]
    return list(array.to_pylist())


def _rows(array: pa.Array, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    there = array.is_valid().to_pylist()
    return [values[offsets[row] : offsets[row + 1]] if there[row] else None for row in range(len(array))]


def _exact(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    return value if value else math.copysign(0.0, value).hex()


def differs(spark: Answer, own: Answer, exact: bool) -> bool:
    """Whether the answers are not the same; those of transcendental functions may differ by a few last bits."""
    if spark == own:
        return False
    left, right = spark[1], own[1]
    if not exact and isinstance(left, float) and isinstance(right, float):
        return not math.isclose(left, right, rel_tol=1e-13, abs_tol=1e-300)
    return True

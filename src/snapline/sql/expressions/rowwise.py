"""Kernels from functions of single values, for what Arrow has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from snapline.sql.expressions.frame import Value
from snapline.sql.expressions.java_text import java_text
from snapline.sql.expressions.registry import Kernel


def rowwise(function: Callable[..., Any], type: pa.DataType) -> Kernel:
    """A kernel that calls `function` for each row; null where an argument is null.

    Where only one argument differs from row to row, the function is called once for each of its distinct values.
    """

    def run(values: Sequence[Value], rows: int) -> Value:
        columns = [position for position, value in enumerate(values) if not isinstance(value, pa.Scalar)]
        constants = [python_value(value) if isinstance(value, pa.Scalar) else None for value in values]
        if any(constants[n] is None for n in range(len(values)) if n not in columns):
            return pa.scalar(None, type)
        if not columns:
            return pa.scalar(function(*constants), type)
        if len(columns) == 1:
            return _of_one_column(function, values[columns[0]], columns[0], constants, type)
        return _of_columns(function, values, rows, type)

    return run


def python_value(scalar: pa.Scalar) -> Any:
    """The value as Python has it; bytes that are no UTF-8 are replaced in text, as Java does."""
    if pa.types.is_string(scalar.type):
        return None if not scalar.is_valid else java_text(scalar.as_buffer().to_pybytes())
    return scalar.as_py()


def python_values(array: pa.Array) -> list[Any]:
    """The values as Python has them; bytes that are no UTF-8 are replaced in text, as Java does."""
    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError:
        assert pa.types.is_string(array.type)
        values = [None if b is None else java_text(b) for b in array.cast(pa.binary()).to_pylist()]
    return values


def _of_one_column(
    function: Callable[..., Any], column: pa.Array, position: int, constants: list[Any], type: pa.DataType
) -> pa.Array:
    before, after = constants[:position], constants[position + 1 :]
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        values = python_values(column)
        return pa.array([None if v is None else function(*before, v, *after) for v in values], type)
    encoded = column.dictionary_encode()
    results = pa.array([function(*before, v, *after) for v in python_values(encoded.dictionary)], type)
    return results.take(encoded.indices)


def _of_columns(function: Callable[..., Any], values: Sequence[Value], rows: int, type: pa.DataType) -> pa.Array:
    columns = [
        [python_value(value)] * rows if isinstance(value, pa.Scalar) else python_values(value) for value in values
    ]
    results = [None if any(value is None for value in row) else function(*row) for row in zip(*columns, strict=True)]
    return pa.array(results, type)

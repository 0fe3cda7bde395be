"""Errors that several kernels raise, under Spark's names."""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa

from snapline.sql.expressions.registry import SparkError


def raise_division_by_zero(kind: str) -> NoReturn:
    """Raise what Spark does for a zero on the right side."""
    if kind in ("Remainder", "Pmod"):
        raise SparkError("REMAINDER_BY_ZERO", "Remainder by zero. Use `try_mod` to get NULL instead.")
    raise SparkError("DIVIDE_BY_ZERO", "Division by zero. Use `try_divide` to get NULL instead.")


def raise_overflow(type: pa.DataType, operation: str) -> NoReturn:
    """Raise what Spark does for the result of an operation that does not fit the type."""
    if pa.types.is_duration(type):
        raise_interval_overflow(suggestion=False)
    if type in (pa.int8(), pa.int16()):
        raise SparkError("BINARY_ARITHMETIC_OVERFLOW", f"{operation} of these values caused overflow.")
    name = "integer" if type == pa.int32() else "long"
    raise SparkError("ARITHMETIC_OVERFLOW", f"{name} overflow at {operation}.")


def raise_interval_overflow(suggestion: bool) -> NoReturn:
    """Raise what Spark does for an interval that is too long; `suggestion` says that a function with `try_` exists."""
    raise SparkError(
        f"INTERVAL_ARITHMETIC_OVERFLOW.{'WITH' if suggestion else 'WITHOUT'}_SUGGESTION",
        "Integer overflow while operating with intervals.",
    )


def raise_out_of_range(type: pa.DataType, suggestion: bool = True) -> NoReturn:
    """Raise what Spark does for a decimal with too many digits; `suggestion` says that legacy mode would give null."""
    raise SparkError(
        f"NUMERIC_VALUE_OUT_OF_RANGE.{'WITH' if suggestion else 'WITHOUT'}_SUGGESTION",
        f"The value cannot be represented as Decimal({type.precision}, {type.scale}).",
    )

"""Expressions by hand, for the tests of kernels."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.registry import SparkError
from snapline.sql.plans.trees import Attribute, Expression


def call(kind: str, type: pa.DataType, *children: Expression, **arguments: Any) -> Expression:
    """An expression of a class."""
    return Expression(kind, type, children, arguments, text=kind)


def column(position: int, type: pa.DataType) -> Expression:
    """The column at a position."""
    return call("AttributeReference", type, id=position, name=f"c{position}")


def literal(value: Any, type: pa.DataType) -> Expression:
    """A constant."""
    return call("Literal", type, value=value)


def array_of(expression: Expression, *columns: pa.Array) -> pa.Array:
    """What the expression gives for rows with these columns."""
    attributes = [Attribute(position, f"c{position}", array.type) for position, array in enumerate(columns)]
    names = [attribute.name for attribute in attributes]
    array = Program([expression], attributes).arrays(pa.RecordBatch.from_arrays(list(columns), names=names))[0]
    assert array.type == expression.type
    return array


def values(expression: Expression, *columns: pa.Array) -> list[Any]:
    """What the expression gives for rows with these columns, as Python values."""
    result: list[Any] = array_of(expression, *columns).to_pylist()
    return result


def condition(expression: Expression, *columns: pa.Array) -> str:
    """The name of the error that the expression raises."""
    with pytest.raises(SparkError) as caught:
        array_of(expression, *columns)
    return caught.value.condition


def applied(kind: str, type: pa.DataType, *columns: pa.Array, **arguments: Any) -> Expression:
    """A function of the columns at positions 0, 1 and so on."""
    return call(kind, type, *(column(position, array.type) for position, array in enumerate(columns)), **arguments)

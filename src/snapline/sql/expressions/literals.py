"""Constants, and expressions that only pass a value on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.frame import Frame, Value
from snapline.sql.expressions.registry import Evaluator, Kernel, form, kernel
from snapline.sql.expressions.type_names import type_name
from snapline.sql.expressions.values import numbers, of_arrays, valid, with_nulls
from snapline.sql.plans.trees import Expression


@form("Literal")
def _literal(expression: Expression, _compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _constant(pa.scalar(expression.arguments["value"], expression.type))


@form("Pi")
def _pi(_expression: Expression, _compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _constant(pa.scalar(np.pi))


@form("EulerNumber")
def _euler_number(_expression: Expression, _compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _constant(pa.scalar(np.e))


@form("TypeOf")
def _type_of(expression: Expression, _compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return _constant(pa.scalar(expression.children[0].sql_type or type_name(expression.children[0].type)))


def _constant(value: pa.Scalar) -> Evaluator:
    def evaluate(_frame: Frame) -> Value:
        return value

    return evaluate


@form(
    "Alias", "Collate", "KnownNullable", "KnownNotNull", "KnownFloatingPointNormalized", "TempResolvedColumn", "UpCast"
)
def _child(expression: Expression, compile: Callable[[Expression], Evaluator]) -> Evaluator:
    return compile(expression.children[0])


@kernel("NormalizeNaNAndZero")
def _normal(expression: Expression) -> Kernel:
    def compute(array: pa.Array) -> pa.Array:
        values = numbers(array, 0.0)
        return with_nulls(np.where(np.isnan(values), np.nan, values + 0.0), valid(array), expression.type)

    return of_arrays(compute)

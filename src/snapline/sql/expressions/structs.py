"""Structs: made from values, taken apart, changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from snapline.sql.expressions.frame import Frame, Value, as_array
from snapline.sql.expressions.lists import list_array, lists, relabelled
from snapline.sql.expressions.registry import Evaluator, Kernel, form, kernel
from snapline.sql.expressions.values import of_arrays
from snapline.sql.plans.trees import Expression


@kernel("CreateNamedStruct", reads_all=True)
def _named_struct(expression: Expression) -> Kernel:
    type = expression.type

    def compute(values: Sequence[Value], rows: int) -> Value:
        fields = [as_array(value, rows) for value in values[1::2]]
        if not fields:
            return pa.scalar({}, type)
        children = [relabelled(child, field.type) for child, field in zip(fields, type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type))

    return compute


@kernel("GetStructField")
def _field(expression: Expression) -> Kernel:
    ordinal = expression.arguments["ordinal"]
    return of_arrays(lambda structs: structs.flatten()[ordinal])


@kernel("GetArrayStructFields")
def _field_of_elements(expression: Expression) -> Kernel:
    ordinal = expression.arguments["ordinal"]

    def compute(array: pa.Array) -> pa.Array:
        parts = lists(array)
        return list_array(parts.elements.flatten()[ordinal], parts.lengths, parts.there, expression.type)

    return of_arrays(compute)


@form("UpdateFields")
def _updated(expression: Expression, compiled: Callable[[Expression], Evaluator]) -> Evaluator:
    """`withField` and `dropFields`: the children after the first are the steps, `WithField` and `DropField`."""
    given, steps = compiled(expression.children[0]), expression.children[1:]
    values = [compiled(step.children[0]) if step.children else None for step in steps]
    type = expression.type

    def evaluate(frame: Frame) -> Value:
        structs = as_array(given(frame), frame.rows)
        columns = dict(zip((field.name for field in structs.type), structs.flatten(), strict=True))
        for step, value in zip(steps, values, strict=True):
            name = _field_name(columns, step.arguments["name"])
            if value is None:
                columns.pop(name, None)
            else:
                columns[name] = as_array(value(frame), frame.rows)
        children = [relabelled(column, field.type) for column, field in zip(columns.values(), type, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=structs.is_null())

    return evaluate


def _field_name(fields: Iterable[str], name: str) -> str:
    """The name of the field that is meant, whatever the case of its letters; a new one stays as it is."""
    return next((field for field in fields if field.lower() == name.lower()), name)

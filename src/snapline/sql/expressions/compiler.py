"""Compiles expressions to functions of batches, once for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions import (  # noqa: F401 (modules enter their expressions when they are imported)
    arithmetic,
    array_access,
    array_functions,
    array_sets,
    bitmaps,
    bits,
    casts,
    comparison,
    composed_strings,
    conditional,
    csv_functions,
    dates,
    datetime_functions,
    datetime_parts,
    decimals,
    digests,
    encodings,
    format_strings,
    interval_arithmetic,
    intervals,
    joined_lists,
    json_paths,
    json_read,
    json_write,
    lambdas,
    literals,
    logic,
    map_lambdas,
    maps,
    masks,
    mathematics,
    number_formats,
    number_templates,
    radix,
    regular_expressions,
    rounded_numbers,
    sequences,
    spark_hashes,
    string_parts,
    string_search,
    strings,
    structs,
    timestamps,
    urls,
    volatile,
)
from snapline.sql.expressions.frame import Frame, Value, as_array, spread
from snapline.sql.expressions.input_limits import limited
from snapline.sql.expressions.registry import (
    ARGUMENT_ORDERS,
    FORMS,
    GOING_ON,
    KERNELS,
    Evaluator,
    SparkError,
    UnsupportedError,
)
from snapline.sql.expressions.structure import Structures
from snapline.sql.plans.trees import Attribute, Expression


class Program:
    """Expressions over batches whose columns are `attributes`, in their order.

    An expression that occurs several times is computed once for each batch, if it is deterministic. Raises
    `UnsupportedError` for an expression that does not run here.
    """

    def __init__(self, expressions: Sequence[Expression], attributes: Sequence[Attribute]) -> None:
        self._positions = {attribute.id: position for position, attribute in enumerate(attributes)}
        self._structures = Structures(expressions)
        self._evaluators = [self._compiled(expression) for expression in expressions]

    def arrays(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The value of each expression for each row. Raises `SparkError`, and `UnsupportedError` for some values."""
        frame = Frame(batch.columns, batch.num_rows)
        try:
            return self._run(frame)
        except (SparkError, UnsupportedError):
            return self._run(replace(frame, careful=True, memo={}))

    def _run(self, frame: Frame) -> list[pa.Array]:
        return [as_array(evaluate(frame), frame.rows) for evaluate in self._evaluators]

    def _compiled(self, expression: Expression) -> Evaluator:
        evaluate = self._evaluator(expression)
        if not self._structures.is_repeated(expression):
            return evaluate
        number = self._structures.number(expression)

        def remembered(frame: Frame) -> Value:
            if number not in frame.memo:
                frame.memo[number] = evaluate(frame)
            return frame.memo[number]

        return remembered

    def _evaluator(self, expression: Expression) -> Evaluator:
        if expression.kind == "AttributeReference":
            position = self._positions[expression.arguments["id"]]
            return lambda frame: frame.columns[position]
        if expression.kind in FORMS:
            return FORMS[expression.kind](expression, self._compiled)
        if expression.kind not in KERNELS:
            raise UnsupportedError(f"the expression {expression.kind} is not supported: {expression.text}")
        compute = limited(expression, KERNELS[expression.kind](expression))
        children = [self._compiled(child) for child in expression.children]
        order = ARGUMENT_ORDERS[expression.kind]
        goes_on = partial(GOING_ON.get(expression.kind, _is_valid), expression)

        def evaluate(frame: Frame) -> Value:
            if not frame.rows:
                # Not even constants are computed, which might raise.
                return pa.nulls(0, expression.type)
            if frame.careful and order is not None:
                return compute(_in_order(children, order, goes_on, frame), frame.rows)
            return compute([child(frame) for child in children], frame.rows)

        return evaluate


def _is_valid(_expression: Expression, argument: pa.Array) -> pa.Array:
    return argument.is_valid()


def _in_order(
    children: Sequence[Evaluator], order: Sequence[int], goes_on: Callable[[pa.Array], pa.Array], frame: Frame
) -> list[Value]:
    """The values of the children, each computed only for the rows where those before it let Spark go on."""
    values: dict[int, Value] = {}
    rows: pa.Array | None = None
    open_rows: pa.Array | None = None
    for number in order or range(len(children)):
        if rows is None:
            value = children[number](frame)
        else:
            value = spread(children[number](frame.take(rows)), rows, frame.rows)
        values[number] = value
        there = goes_on(as_array(value, frame.rows))
        open_rows = there if open_rows is None else pc.and_(open_rows, there)
        rows = pc.indices_nonzero(open_rows)
    return [values[number] for number in range(len(children))]

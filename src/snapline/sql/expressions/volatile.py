"""Expressions with another value at each evaluation: random numbers, identifiers, row numbers."""

from __future__ import annotations

import string
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.frame import Frame, Value
from snapline.sql.expressions.registry import Evaluator, UnsupportedError, form
from snapline.sql.plans.trees import Expression

Compile = Callable[[Expression], Evaluator]


@form("Rand", "Randn")
def _random(expression: Expression, _compile: Compile) -> Evaluator:
    seed = expression.children[0].arguments.get("value") if expression.children else None
    generator = np.random.default_rng(None if seed is None else seed % 2**64)
    draw = generator.random if expression.kind == "Rand" else generator.standard_normal
    return lambda frame: pa.array(draw(frame.rows))


@form("Uuid")
def _uuid(_expression: Expression, _compile: Compile) -> Evaluator:
    return lambda frame: pa.array([str(uuid.uuid4()) for _ in range(frame.rows)], pa.string())


_LETTERS = np.frombuffer((string.digits + string.ascii_letters).encode(), np.uint8)


@form("RandStr")
def _random_text(expression: Expression, _compile: Compile) -> Evaluator:
    length, *seeds = expression.children
    while length.kind == "Cast":
        length = length.children[0]
    if length.kind != "Literal":
        raise UnsupportedError(f"the length must be a literal: {expression.text}")
    seed = seeds[0].arguments.get("value") if seeds else None
    generator = np.random.default_rng(None if seed is None else seed % 2**64)
    size = int(length.arguments["value"])

    def evaluate(frame: Frame) -> Value:
        letters = _LETTERS[generator.integers(0, len(_LETTERS), frame.rows * size)].tobytes()
        offsets = pa.py_buffer((np.arange(frame.rows + 1, dtype=np.int32) * size).tobytes())
        return pa.Array.from_buffers(pa.string(), frame.rows, [None, offsets, pa.py_buffer(letters)])

    return evaluate


@form("MonotonicallyIncreasingID")
def _row_number(_expression: Expression, _compile: Compile) -> Evaluator:
    start = 0

    def evaluate(frame: Frame) -> Value:
        nonlocal start
        first, start = start, start + frame.rows
        return pa.array(np.arange(first, start, dtype=np.int64))

    return evaluate

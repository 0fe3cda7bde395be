"""Functions that make several rows of one: `explode`, `inline`, `stack`, `json_tuple` and their outer forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.array_functions import interleaved
from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.compiler import Program
from snapline.sql.expressions.json_documents import Json, JsonError, Number, parsed
from snapline.sql.expressions.json_write import json_text
from snapline.sql.expressions.lists import Lists, lists, maps
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.trees import Attribute, Expression

Made: TypeAlias = tuple[Integers, list[pa.Array]]
"""The number of the row that each new row comes from, in ascending order, and the new columns."""


class Generator:
    """A generator over batches whose columns are `attributes`.

    With `outer`, a row that gives none is kept, with nulls in the new columns. Raises `UnsupportedError` for an
    expression that does not run here.
    """

    def __init__(self, expression: Expression, attributes: Sequence[Attribute], *, outer: bool = False) -> None:
        while expression.kind == "GeneratorOuter":
            expression, outer = expression.children[0], True
        if expression.kind not in _MAKERS:
            raise UnsupportedError(f"the generator {expression.kind} is not supported: {expression.text}")
        self._make = _MAKERS[expression.kind](expression)
        self._children = Program(expression.children, attributes)
        self._outer = outer

    def generate(self, batch: pa.RecordBatch) -> tuple[pa.Array, list[pa.Array]]:
        """The number of the row that each new row comes from, and the new columns. Raises `SparkError`."""
        rows, columns = self._make(self._children.arrays(batch), batch.num_rows)
        if self._outer:
            rows, columns = _with_all_rows(rows, columns, batch.num_rows)
        return pa.array(rows, pa.int64()), columns


def _with_all_rows(rows: Integers, columns: list[pa.Array], count: int) -> Made:
    missing = np.setdiff1d(np.arange(count), rows)
    if not len(missing):
        return rows, columns
    all_rows = np.concatenate([rows, missing])
    order = np.argsort(all_rows, kind="stable")
    absent = order >= len(rows)
    places = pa.array(np.where(absent, 0, order), mask=absent)
    return all_rows[order], [column.take(places) for column in columns]


Maker: TypeAlias = Callable[[list[pa.Array], int], Made]


def _elements(array: pa.Array) -> tuple[Lists, list[pa.Array]]:
    if pa.types.is_map(array.type):
        entries = maps(array)
        return entries.as_keys, [entries.keys, entries.values]
    parts = lists(array)
    return parts, [parts.elements]


def _explode(_expression: Expression) -> Maker:
    def make(values: list[pa.Array], _rows: int) -> Made:
        parts, columns = _elements(values[0])
        return parts.rows, columns

    return make


def _explode_with_positions(_expression: Expression) -> Maker:
    def make(values: list[pa.Array], _rows: int) -> Made:
        parts, columns = _elements(values[0])
        return parts.rows, [pa.array(parts.positions, pa.int32()), *columns]

    return make


def _inline(_expression: Expression) -> Maker:
    def make(values: list[pa.Array], _rows: int) -> Made:
        parts = lists(values[0])
        return parts.rows, parts.elements.flatten()

    return make


def _stack(expression: Expression) -> Maker:
    height = int(expression.children[0].arguments["value"])
    cells = expression.children[1:]
    width = -(-len(cells) // height)

    def make(values: list[pa.Array], rows: int) -> Made:
        columns = []
        for column in range(width):
            own = values[1 + column :: width]
            type = next((value.type for value in own if not pa.types.is_null(value.type)), own[0].type)
            padded = [*own, *(pa.nulls(rows, type) for _ in range(height - len(own)))]
            columns.append(lists(interleaved(padded, rows, pa.list_(type))).elements)
        return np.repeat(np.arange(rows), height), columns

    return make


def _json_tuple(_expression: Expression) -> Maker:
    def make(values: list[pa.Array], rows: int) -> Made:
        names = zip(*(array.to_pylist() for array in values[1:]), strict=True)
        cells = [_members(text, row) for text, row in zip(values[0].to_pylist(), names, strict=True)]
        columns = [pa.array([row[column] for row in cells], pa.string()) for column in range(len(values) - 1)]
        return np.arange(rows), columns

    return make


def _members(text: str | None, names: Sequence[str | None]) -> list[str | None]:
    """The members of a JSON object with these names, as text."""
    try:
        document = None if text is None else parsed(text)
    except JsonError:
        document = None
    if not isinstance(document, dict):
        return [None] * len(names)
    return [None if name is None else _member_text(document.get(name)) for name in names]


def _member_text(value: Json) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) and not isinstance(value, Number) else json_text(value)


_MAKERS: dict[str, Callable[[Expression], Maker]] = {
    "Explode": _explode,
    "PosExplode": _explode_with_positions,
    "Inline": _inline,
    "Stack": _stack,
    "JsonTuple": _json_tuple,
}

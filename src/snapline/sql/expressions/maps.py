"""Maps made from keys and values, joined, taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.array_functions import interleaved
from snapline.sql.expressions.array_sets import joined
from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Frame, Value
from snapline.sql.expressions.lists import Lists, Maps, list_array, lists, maps, relabelled
from snapline.sql.expressions.ranks import codes, normalised
from snapline.sql.expressions.registry import Evaluator, Kernel, SparkError, form, kernel
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.plans.trees import Expression


def map_array(
    keys: pa.Array, values: pa.Array, lengths: Integers, there: Bools, type: pa.DataType, *, as_given: bool = False
) -> pa.Array:
    """An array of maps. Raises `SparkError` for a key that is null or occurs twice in a row.

    Zeros among the keys become positive, unless they are kept `as_given`.
    """
    entries = Maps(keys if as_given else normalised(keys), values, lengths, there)
    numbers = codes(entries.keys)[0]
    rows = entries.as_keys.rows
    first = np.zeros(len(numbers), np.bool_)
    first[np.unique(rows * (int(numbers.max(initial=0)) + 2) + numbers, return_index=True)[1]] = True
    wrong = np.flatnonzero((numbers < 0) | ~first)
    if len(wrong):
        if numbers[wrong[0]] < 0:
            raise SparkError("NULL_MAP_KEY", "Cannot use null as map key.")
        raise SparkError("DUPLICATED_MAP_KEY", "Duplicate map key was found, please check the input data.")
    return entries.array(type)


@form("CreateMap")
def _map(expression: Expression, compiled: Callable[[Expression], Evaluator]) -> Evaluator:
    type = expression.type
    children = [compiled(child) for child in expression.children]

    def evaluate(frame: Frame) -> Value:
        values: list[Value] = []
        for key, item in zip(children[0::2], children[1::2], strict=True):
            values += [key(frame), item(frame)]
            if frame.careful:
                # Spark refuses a key before it computes the next one.
                _from_pairs(values, frame.rows, type)
        return _from_pairs(values, frame.rows, type)

    return evaluate


def _from_pairs(values: Sequence[Value], rows: int, type: pa.DataType) -> pa.Array:
    keys = lists(interleaved(values[0::2], rows, pa.list_(type.key_type)))
    items = lists(interleaved(values[1::2], rows, pa.list_(type.item_type)))
    return map_array(keys.elements, items.elements, keys.lengths, keys.there, type)


@kernel("MapFromArrays")
def _map_from_arrays(expression: Expression) -> Kernel:
    def compute(keys: pa.Array, values: pa.Array) -> pa.Array:
        there = valid(keys, values)
        names, items = lists(keys), lists(values)
        if (there & (names.lengths != items.lengths)).any():
            message = "The key array and value array of MapData must have the same length."
            raise SparkError("_LEGACY_ERROR_TEMP_2128", message)
        names, items = names.chosen(there[names.rows]), items.chosen(there[items.rows])
        return map_array(names.elements, items.elements, names.lengths, there, expression.type, as_given=True)

    return of_arrays(compute)


@kernel("MapFromEntries")
def _map_from_entries(expression: Expression) -> Kernel:
    def compute(array: pa.Array) -> pa.Array:
        parts = lists(array)
        there = parts.there & (np.bincount(parts.rows[~valid(parts.elements)], minlength=len(array)) == 0)
        parts = parts.chosen(there[parts.rows])
        keys, values = parts.elements.flatten()
        return map_array(keys, values, parts.lengths, there, expression.type)

    return of_arrays(compute)


@kernel("MapConcat", reads_all=True)
def _map_concat(expression: Expression) -> Kernel:
    type = expression.type

    def compute(values: Sequence[Value], rows: int) -> Value:
        return of_arrays(concatenated)(values, rows) if values else pa.scalar([], type)

    def concatenated(*arrays: pa.Array) -> pa.Array:
        there = valid(*arrays)
        given = [maps(array) for array in arrays]
        keys, items = (
            _joined([Lists(column, each.lengths, each.there) for each, column in columns], there)
            for columns in ([(each, each.keys) for each in given], [(each, each.values) for each in given])
        )
        return map_array(keys.elements, items.elements, keys.lengths, there, type)

    return compute


def _joined(parts: Sequence[Lists], there: Bools) -> Lists:
    kept = [part.chosen(there[part.rows]) for part in parts]
    result = kept[0]
    for other in kept[1:]:
        result = joined(result, other)
    return result


@kernel("MapKeys", "MapValues", "MapEntries")
def _entries(expression: Expression) -> Kernel:
    kind, type = expression.kind, expression.type

    def compute(array: pa.Array) -> pa.Array:
        entries = maps(array)
        if kind == "MapEntries":
            fields = list(type.value_type)
            columns = (relabelled(entries.keys, fields[0].type), relabelled(entries.values, fields[1].type))
            elements = pa.StructArray.from_arrays(columns, fields=fields)
        else:
            elements = entries.keys if kind == "MapKeys" else entries.values
        return list_array(elements, entries.lengths, entries.there, type)

    return of_arrays(compute)

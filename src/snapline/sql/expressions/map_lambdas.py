"""Functions that take a function of the entries of maps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.array_sets import joined
from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Frame, Value, as_array
from snapline.sql.expressions.lambdas import Body, Compile, both, is_true
from snapline.sql.expressions.lists import Maps, maps
from snapline.sql.expressions.maps import map_array
from snapline.sql.expressions.ranks import codes
from snapline.sql.expressions.registry import Evaluator, form
from snapline.sql.expressions.values import valid
from snapline.sql.plans.trees import Expression


@form("MapFilter", "TransformKeys", "TransformValues")
def _of_entries(expression: Expression, compiled: Compile) -> Evaluator:
    kind, type = expression.kind, expression.type
    given, body = compiled(expression.children[0]), Body(expression.children[1], compiled)

    def evaluate(frame: Frame) -> Value:
        entries = maps(as_array(given(frame), frame.rows))
        rows = entries.as_keys.rows
        results = body.of(frame, rows, entries.keys, entries.values)
        if kind == "TransformKeys":
            return map_array(results, entries.values, entries.lengths, entries.there, type, as_given=True)
        if kind == "TransformValues":
            return Maps(entries.keys, results, entries.lengths, entries.there).array(type)
        kept = is_true(results)
        keys, values = (column.filter(pa.array(kept)) for column in (entries.keys, entries.values))
        return Maps(keys, values, np.bincount(rows[kept], minlength=frame.rows), entries.there).array(type)

    return evaluate


@form("MapZipWith")
def _zip_with(expression: Expression, compiled: Compile) -> Evaluator:
    left, right = (compiled(child) for child in expression.children[:2])
    body = Body(expression.children[2], compiled)

    def evaluate(frame: Frame) -> Value:
        arrays = both(left, right, frame)
        there = valid(*arrays)
        first, second = (maps(array) for array in arrays)
        keys = joined(
            first.as_keys.chosen(there[first.as_keys.rows]), second.as_keys.chosen(there[second.as_keys.rows])
        )
        numbers, of_first, of_second = codes(keys.elements, first.keys, second.keys)
        width = max(int(each.max(initial=0)) for each in (numbers, of_first, of_second)) + 2
        pairs = keys.rows * width + numbers
        kept = np.zeros(len(pairs), np.bool_)
        kept[np.unique(pairs, return_index=True)[1]] = True
        keys, pairs = keys.chosen(kept), pairs[kept]
        columns = [
            _values(pairs, each.as_keys.rows * width + own, each.values)
            for each, own in ((first, of_first), (second, of_second))
        ]
        results = body.of(frame, keys.rows, keys.elements, *columns)
        return Maps(keys.elements, results, keys.lengths, there).array(expression.type)

    return evaluate


def _values(wanted: Integers, pairs: Integers, values: pa.Array) -> pa.Array:
    """The value of each wanted pair of row and key, null where there is none."""
    order = np.argsort(pairs, kind="stable")
    places = np.searchsorted(pairs[order], wanted)
    inside = places < len(pairs)
    found = np.where(inside, order[np.minimum(places, max(len(order) - 1, 0))], 0) if len(order) else places * 0
    there = inside & (pairs[found] == wanted) if len(order) else np.zeros(len(wanted), np.bool_)
    return values.take(pa.array(found, mask=~there))

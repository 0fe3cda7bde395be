"""The text, or the bytes, of `listagg`: the values of each list in their order, with a delimiter between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.frame import Value, as_array
from snapline.sql.expressions.lists import Lists, lists
from snapline.sql.expressions.ranks import ranks
from snapline.sql.expressions.registry import Kernel, kernel
from snapline.sql.plans.trees import Expression


@kernel("JoinedList", reads_all=True)
def _joined_list(expression: Expression) -> Kernel:
    """Of a list of values, or of structs of a value and its sort keys; null where the list is empty."""

    def compute(values: Sequence[Value], rows: int) -> Value:
        parts = _sorted(lists(as_array(values[0], rows)), expression)
        delimiter = as_array(values[1], 1)[0].as_py() or b""
        joined = pc.binary_join(parts.array(pa.list_(expression.type)), pa.scalar(delimiter).cast(expression.type))
        return pc.if_else(pa.array(parts.lengths > 0), joined, pa.scalar(None, expression.type))

    return compute


def _sorted(parts: Lists, expression: Expression) -> Lists:
    """The values of each list without their keys, in the order of these."""
    if not expression.arguments["descending"]:
        return parts
    values, keys = parts.elements, [parts.elements]
    if expression.arguments["is_keyed"]:
        values, *keys = parts.elements.flatten()
    orders = zip(keys, expression.arguments["descending"], expression.arguments["nulls_first"], strict=True)
    numbers = [_places(*each) for each in orders]
    return Lists(values, parts.lengths, parts.there).arranged(np.lexsort((*reversed(numbers), parts.rows)))


def _places(key: pa.Array, descending: bool, nulls_first: bool) -> Integers:
    places = ranks(key)
    is_null = places < 0
    places = -places if descending else places
    ends = (places.min(initial=0) - 1, places.max(initial=0) + 1)
    return np.where(is_null, ends[0] if nulls_first else ends[1], places)

"""Arrow types with other types inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.types as pt

LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)


def leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """A type and all types inside of it."""
    yield kind
    for number in range(kind.num_fields):
        yield from leaf_types(kind.field(number).type)
    if pt.is_dictionary(kind):
        yield from leaf_types(kind.value_type)


def rebuilt(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type with its leaves replaced; all lists are of the usual kind, and dictionaries are decoded."""
    if any(test(kind) for test in LISTS):
        return pa.list_(rebuilt(kind.value_type, leaf))
    if pt.is_struct(kind):
        return pa.struct([pa.field(inner.name, rebuilt(inner.type, leaf)) for inner in kind])
    if pt.is_map(kind):
        return pa.map_(rebuilt(kind.key_type, leaf), rebuilt(kind.item_type, leaf))
    if pt.is_dictionary(kind):
        return rebuilt(kind.value_type, leaf)
    return leaf(kind)


def can_cast(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can be written as another. Text and numbers are not made of each other."""
    given = given.value_type if pt.is_dictionary(given) else given
    if _is_text(given) != _is_text(wanted):
        return False
    try:
        pa.array([], given).cast(wanted)
    except pa.ArrowException:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))

"""How values of a restored state become values of the type it is declared with now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.state.exact_cast import exact_array
from snapline.state.pickles import pickled, unpickled
from snapline.state.state_types import StateType

Migrate: TypeAlias = Callable[[Any], Any]
"""A user's function: takes a value as an older version of the job stored it, and returns it as it is declared now."""


def obstacle(stored: pa.DataType, declared: pa.DataType, default: Any = None, *, promotes: bool = False) -> str | None:
    """Why values of the type `stored` cannot be read as `declared`; None if they can.

    Types may become wider. Structs may lose fields, have them in another order, and get new ones: those are set to what
    `default` has for them, else to null. With `promotes`, integers may become floats, and text and binary each other,
    as in Avro.
    """
    if StateType(declared).accepts(StateType(stored)) or (promotes and _promotes(stored, declared)):
        return None
    if pa.types.is_struct(stored) and pa.types.is_struct(declared):
        return _struct_obstacle(stored, declared, default, promotes)
    if pa.types.is_map(stored) and pa.types.is_map(declared):
        if stored.key_type != declared.key_type:
            return f"the keys of a map were {stored.key_type} and are {declared.key_type} now"
        return _field_obstacle(stored.item_field, declared.item_field, None, promotes)
    if _is_list(stored) and stored.id == declared.id:
        if pa.types.is_fixed_size_list(stored) and stored.list_size != declared.list_size:
            return f"lists had {stored.list_size} elements and have {declared.list_size} now"
        return _field_obstacle(stored.value_field, declared.value_field, None, promotes)
    return f"{stored} cannot become {declared}"


def _promotes(stored: pa.DataType, declared: pa.DataType) -> bool:
    """Whether Avro reads values of one type as the other; it may round large integers to floats."""
    if pa.types.is_integer(stored):
        return declared in (pa.float32(), pa.float64())
    return {stored, declared} == {pa.string(), pa.binary()}


def _struct_obstacle(stored: pa.DataType, declared: pa.DataType, default: Any, promotes: bool) -> str | None:
    before = {field.name: field for field in stored}
    for field in declared:
        filled = default.get(field.name) if isinstance(default, Mapping) else None
        if field.name in before:
            problem = _field_obstacle(before[field.name], field, filled, promotes)
            if problem is not None:
                return f"field {field.name!r}: {problem}"
        elif filled is None and not field.nullable:
            return f"the new field {field.name!r} may not be null, and there is no default for it"
    return None


def _field_obstacle(stored: pa.Field, declared: pa.Field, default: Any, promotes: bool) -> str | None:
    if stored.nullable and not declared.nullable:
        return "it could be null and may not be null now"
    return obstacle(stored.type, declared.type, default, promotes=promotes)


def evolved(values: pa.Array, declared: pa.DataType, default: Any = None) -> pa.Array:
    """Values of another type as `declared`; there must be no `obstacle`."""
    stored = values.type
    if stored == declared:
        return values
    if pa.types.is_struct(declared):
        before = dict(zip([field.name for field in stored], values.flatten(), strict=True))
        parts = []
        for field in declared:
            filled = default.get(field.name) if isinstance(default, Mapping) else None
            if field.name in before:
                parts.append(evolved(before[field.name], field.type, filled))
            else:
                (only,) = exact_array([filled], field.type)
                parts.append(pa.repeat(only, len(values)))
        return pa.StructArray.from_arrays(parts, fields=list(declared), mask=values.is_null())
    if pa.types.is_map(declared):
        entries = [values.keys, evolved(values.items, declared.item_type)]
        child = pa.StructArray.from_arrays(entries, fields=[declared.key_field, declared.item_field])
        return _with_child(values, declared, child)
    if _is_list(declared):
        return _with_child(values, declared, evolved(values.values, declared.value_type))
    return values.cast(declared, safe=not pa.types.is_floating(declared))


def migrated(stored: pa.Array, old: StateType, new: StateType, migrate: Migrate, what: str) -> pa.Array:
    """Values in stored form, each passed through the user's function. Raises `UserCodeError`, which names `what`."""
    values = (
        [unpickled(data) for data in stored.to_pylist()]
        if old.is_object
        else stored.to_pylist(maps_as_pydicts="strict")
    )
    try:
        made = [migrate(value) for value in values]
        if any(value is None for value in made):
            raise UserCodeError("it returned None for a value, which is no value; return what the value is now")
        if new.arrow is None:
            return pa.array([pickled(value) for value in made], pa.binary())
        return exact_array(made, new.arrow)
    except Exception as error:
        text = str(error) if isinstance(error, UserCodeError) else f"{type(error).__name__}: {error}"
        raise UserCodeError(f"{what}: the function given as migrate= failed: {text}") from error


@dataclass(frozen=True, slots=True)
class Change:
    """How a declaration takes over restored values: by the user's function, or as far as the types allow.

    `promotes` allows what Avro does: integers may become floats, and text and binary each other.
    """

    migrate: Migrate | None = None
    default: Any = None
    promotes: bool = False

    def obstacle(self, stored: StateType, declared: StateType) -> str | None:
        """Why values cannot be taken over; None if they can."""
        if stored == declared or self.migrate is not None:
            return None
        if stored.arrow is None or declared.arrow is None:
            return f"{stored} cannot become {declared}"
        return obstacle(stored.arrow, declared.arrow, self.default, promotes=self.promotes)

    def apply(self, values: pa.ChunkedArray, stored: StateType, declared: StateType, what: str) -> pa.Array:
        """The values, in stored form, as they are declared now."""
        array = values.combine_chunks()
        if stored == declared:
            return array
        if self.migrate is not None:
            return migrated(array, stored, declared, self.migrate, what)
        assert declared.arrow is not None
        return evolved(array, declared.arrow, self.default)


def widening_obstacle(stored: StateType, declared: StateType) -> str | None:
    """Why values cannot be read without loss as a type that is not declared by the user; None if they can."""
    return None if declared.accepts(stored) else f"{stored} cannot become {declared}"


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def _with_child(values: pa.Array, declared: pa.DataType, child: pa.Array) -> pa.Array:
    """A list or map with the same lengths and nulls, and other contents."""
    buffers = values.buffers()[: 1 if pa.types.is_fixed_size_list(declared) else 2]
    return pa.Array.from_buffers(declared, len(values), buffers, offset=values.offset, children=[child])

"""Values of a declared type as plain Python objects: checked when they are set, copied when they are handed out.

A value that is set is checked at once and comes out as a restore would return it. The common types are checked without
Arrow; whatever they do not take, `StateType.convert` decides, with its messages.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.state.arrays import Values
from snapline.state.pickles import pickled
from snapline.state.state_types import StateType

Convert: TypeAlias = Callable[[Any], Any]
Copy: TypeAlias = Callable[[Any], Any]


class _UnusualError(Exception):
    """Only Arrow can decide about a value."""


class PythonValues:
    """Values of a state. `copy` is None if they cannot be changed in place, or are the user's own objects.

    With `must_pickle`, an object that cannot be pickled is refused when it is set.
    """

    def __init__(self, kind: StateType, *, must_pickle: bool = False) -> None:
        self.convert = _pickling if must_pickle and kind.is_object else exact_converter(kind)
        """A value as a restore would return it, and a copy if it can be changed. Raises `UserCodeError`."""
        self.copy: Copy | None = None if kind.arrow is None else _copier(kind.arrow)
        self._arrow = kind.arrow

    def column(self, values: list[Any]) -> Values:
        """Converted values, None among them, as a column for a table."""
        return values if self._arrow is None else pa.array(values, self._arrow)


def exact_converter(kind: StateType, otherwise: Convert | None = None) -> Convert:
    """The same as `kind.convert`, or as `otherwise`, many times faster for the common types."""
    slow = otherwise or kind.convert
    if kind.arrow is None:
        return slow
    if not pa.types.is_nested(kind.arrow):
        return _check(kind.arrow, slow) or slow
    check = _check(kind.arrow, _refuse)
    if check is None:
        return slow

    def convert(value: Any) -> Any:
        try:
            return check(value)
        except (_UnusualError, KeyError):
            return slow(value)

    return convert


def _refuse(value: Any) -> Any:
    del value
    raise _UnusualError


def _pickling(value: Any) -> Any:
    pickled(value)
    return value


def _check(arrow: pa.DataType, otherwise: Convert) -> Convert | None:
    """A function that returns values of the usual Python type, and calls `otherwise` with all others.

    None if there is no usual type.
    """
    if pa.types.is_integer(arrow):
        return _whole_number(arrow, otherwise)
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return _text(otherwise)
    if pa.types.is_timestamp(arrow):
        return _timestamp(arrow, otherwise)
    if pa.types.is_struct(arrow):
        return _struct(arrow)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        return _list(arrow)
    if pa.types.is_map(arrow):
        return _map(arrow)
    plain = _PLAIN.get(arrow)
    return None if plain is None else _instance(plain, otherwise)


_PLAIN: dict[pa.DataType, type] = {
    pa.float64(): float,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.large_binary(): bytes,
    pa.date32(): datetime.date,
}


def _instance(plain: type, otherwise: Convert) -> Convert:
    def check(value: Any) -> Any:
        return value if type(value) is plain else otherwise(value)

    return check


def _whole_number(arrow: pa.DataType, otherwise: Convert) -> Convert:
    bits = arrow.bit_width
    is_signed = pa.types.is_signed_integer(arrow)
    least, end = (-(1 << (bits - 1)), 1 << (bits - 1)) if is_signed else (0, 1 << bits)

    def check(value: Any) -> Any:
        return value if type(value) is int and least <= value < end else otherwise(value)

    return check


def _text(otherwise: Convert) -> Convert:
    def check(value: Any) -> Any:
        return value if type(value) is str and (value.isascii() or _has_code(value)) else otherwise(value)

    return check


def _has_code(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _timestamp(arrow: pa.DataType, otherwise: Convert) -> Convert | None:
    if arrow.unit != "us":
        return None
    zone = None if arrow.tz is None else pa.scalar(0, arrow).as_py().tzinfo

    def check(value: Any) -> Any:
        is_usual = type(value) is datetime.datetime and value.tzinfo is zone and not value.fold
        return value if is_usual else otherwise(value)

    return check


def _nullable(field: pa.Field) -> Convert | None:
    check = _check(field.type, _refuse)
    if check is None or not field.nullable:
        return check
    return lambda value: None if value is None else check(value)


def _struct(arrow: pa.DataType) -> Convert | None:
    made = [(field.name, _nullable(field)) for field in arrow]
    checks = [(name, check) for name, check in made if check is not None]
    if len(checks) < len(made):
        return None
    count = len(checks)

    def check_all(value: Any) -> Any:
        if type(value) is not dict or len(value) != count:
            raise _UnusualError
        return {name: check(value[name]) for name, check in checks}

    return check_all


def _list(arrow: pa.DataType) -> Convert | None:
    check = _nullable(arrow.value_field)
    if check is None:
        return None

    def check_all(value: Any) -> Any:
        if type(value) is not list:
            raise _UnusualError
        return [check(item) for item in value]

    return check_all


def _map(arrow: pa.DataType) -> Convert | None:
    check_key, check_item = _check(arrow.key_type, _refuse), _nullable(arrow.item_field)
    if check_key is None or check_item is None:
        return None

    def check_all(value: Any) -> Any:
        if type(value) is not dict:
            raise _UnusualError
        return {check_key(key): check_item(item) for key, item in value.items()}

    return check_all


def _copier(arrow: pa.DataType) -> Copy | None:
    """A function that copies values of a type, None if they cannot be changed."""
    if pa.types.is_struct(arrow):
        changeable = [(field.name, copy) for field in arrow if (copy := _copier(field.type)) is not None]
        return _struct_copier(changeable) if changeable else dict.copy
    if pa.types.is_map(arrow):
        copy = _copier(arrow.item_type)
        return dict.copy if copy is None else _map_copier(copy)
    if arrow.num_fields:
        copy = _copier(arrow.field(0).type)
        return list.copy if copy is None else _list_copier(copy)
    return None


def _map_copier(copy: Copy) -> Copy:
    return lambda value: {key: None if item is None else copy(item) for key, item in value.items()}


def _list_copier(copy: Copy) -> Copy:
    return lambda value: [None if item is None else copy(item) for item in value]


def _struct_copier(changeable: Sequence[tuple[str, Copy]]) -> Copy:
    def copied(value: dict[str, Any]) -> dict[str, Any]:
        made = value.copy()
        for name, copy in changeable:
            item = made[name]
            if item is not None:
                made[name] = copy(item)
        return made

    return copied

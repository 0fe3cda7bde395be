"""Values of a stateful processor as values of keyed state, and back."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.state_types import resolve
from snapline.text import shortened

Convert: TypeAlias = Callable[[Any], Any]

_SIMPLE: frozenset[type] = frozenset({bool, int, float, str, bytes, type(None), datetime.datetime, datetime.date})
"""Types whose values are stored as they are, unless their column has a conversion."""

_TEXT: frozenset[type] = frozenset({str, type(None)})
"""The same for columns of text."""


class Codec:
    """Converts tuples of a schema to values of keyed state, and back. `what` names the state in messages.

    `family` is the name of a state that Spark would encode in Avro: all of its fields must be nullable.
    """

    def __init__(self, schema: Any, what: str, *, family: str | None = None) -> None:
        try:
            kind = resolve(schema).arrow
        except ConfigurationError as error:
            raise ConfigurationError(f"the schema of {what}: {error}") from error
        if kind is None or not pa.types.is_struct(kind):
            raise ConfigurationError(
                f"the schema of {what} is {schema!r}, which has no columns; declare columns, for example 'n BIGINT'"
            )
        if family is not None and (strict := _not_nullable(kind)):
            raise ConfigurationError(
                f"[TRANSFORM_WITH_STATE_SCHEMA_MUST_BE_NULLABLE] every field of column family {family} must be "
                f"nullable where state is encoded in Avro, and {strict!r} is not; make it nullable, or leave out "
                "spark.sql.streaming.stateStore.encodingFormat=avro"
            )
        self.kind: pa.DataType = kind
        self._what = what
        self._fields = [kind.field(index) for index in range(kind.num_fields)]
        self._names = [field.name for field in self._fields]
        self._stored = [_storing(field.type) for field in self._fields]
        self._kept = [_TEXT if store is _as_text else frozenset() if store else _SIMPLE for store in self._stored]
        self._given = [_giving(field.type) for field in self._fields]
        self._is_plain = not any(self._given)

    def values(self, value: Any) -> list[Any]:
        """Returns the columns of a value. Raises `UserCodeError` if it is not a tuple of the right length."""
        if not isinstance(value, tuple | list) or len(value) != len(self._names):
            raise UserCodeError(
                f"{shortened(value)} is no value of {self._what}: give a tuple of {', '.join(self._names)}"
            )
        return [
            item if type(item) in kept else _stored_item(item, store)
            for item, kept, store in zip(value, self._kept, self._stored, strict=True)
        ]

    def store(self, value: Any) -> dict[str, Any]:
        return dict(zip(self._names, self.values(value), strict=True))

    def give(self, stored: dict[str, Any]) -> tuple[Any, ...]:
        if self._is_plain:
            return tuple(stored.values())
        return tuple(
            item if give is None else give(item) for item, give in zip(stored.values(), self._given, strict=True)
        )


class MapKeyCodec(Codec):
    """Codec for map keys, which are stored without a struct if they have one column.

    A key of one column need not be given as a tuple.
    """

    def __init__(self, schema: Any, what: str) -> None:
        super().__init__(schema, what)
        self._is_single = len(self._fields) == 1
        for field in self._fields:
            if pa.types.is_nested(field.type) or pa.types.is_decimal(field.type):
                raise ConfigurationError(
                    f"the schema of {what}: {field.name!r} is {field.type}, which cannot be the key of a map here; use "
                    "numbers, strings, binary, booleans, dates or timestamps"
                )

    @property
    def key_kind(self) -> pa.DataType:
        return self._fields[0].type if self._is_single else self.kind

    def key(self, value: Any) -> Any:
        values = self.values((value,) if self._is_single and not isinstance(value, tuple | list) else value)
        if any(item is None for item in values):
            raise UserCodeError(f"{shortened(value)} has nulls, which {self._what} cannot; use a placeholder value")
        return values[0] if self._is_single else tuple(values)

    def give_key(self, stored: Any) -> tuple[Any, ...]:
        return self.give({"": stored} if self._is_single else stored)


def _storing(kind: pa.DataType) -> Convert | None:
    """Returns the conversion from Spark's values to those of keyed state, or None if they are the same."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return _with_zone
    if pa.types.is_string(kind):
        return _as_text
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        parts = [(field.name, _storing(field.type)) for field in fields]
        return lambda value: None if value is None else _as_dict(value, parts)
    if pa.types.is_map(kind):
        key, item = _storing(kind.key_type), _storing(kind.item_type)
        return lambda value: (
            None
            if value is None
            else {_stored_item(one, key): _stored_item(other, item) for one, other in dict(value).items()}
        )
    if pa.types.is_list(kind):
        element = _storing(kind.value_type)
        return lambda value: None if value is None else [_stored_item(item, element) for item in value]
    return None


def _stored_item(value: Any, store: Convert | None) -> Any:
    """Returns a column's value in plain Python, converted by `store`: numpy and pandas have values of their own."""
    if isinstance(value, np.generic):
        value = value.item() if not isinstance(value, np.datetime64 | np.timedelta64) else value.astype("O")
    elif (plain := getattr(value, "to_pydatetime", None) or getattr(value, "to_pytimedelta", None)) is not None:
        value = None if value != value else plain()  # NaT differs from itself
    return value if store is None else store(value)


def _as_text(value: Any) -> Any:
    """Numbers and flags become text as in Java, which Spark relies on."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float | decimal.Decimal) else value


def _not_nullable(kind: pa.DataType) -> str | None:
    """Returns the name of the first field, at any depth, that may not be null; the keys of maps never are."""
    if pa.types.is_map(kind):
        children = [kind.item_field]
    elif pa.types.is_struct(kind) or pa.types.is_list(kind):
        children = [kind.field(index) for index in range(kind.num_fields)]
    else:
        return None
    for field in children:
        found = _not_nullable(field.type)
        if not field.nullable or found:
            return field.name if not field.nullable else found
    return None


def _giving(kind: pa.DataType) -> Convert | None:
    """Returns the conversion back, or None: nested structs become rows, times are local without a zone."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return lambda value: None if value is None else value.astimezone().replace(tzinfo=None)
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        make = Row(*[field.name for field in fields])
        parts = [_giving(field.type) or _same for field in fields]
        return lambda value: (
            None if value is None else make(*[give(item) for give, item in zip(parts, value.values(), strict=True)])
        )
    if pa.types.is_map(kind):
        key, item = _giving(kind.key_type) or _same, _giving(kind.item_type) or _same
        return lambda value: None if value is None else {key(one): item(other) for one, other in value.items()}
    if pa.types.is_list(kind):
        element = _giving(kind.value_type)
        return element and (lambda value: None if value is None else [element(item) for item in value])
    return None


def _same(value: Any) -> Any:
    return value


def _with_zone(value: Any) -> Any:
    """A time without a zone is local time, as everywhere in PySpark."""
    return value.astimezone(datetime.UTC) if isinstance(value, datetime.datetime) and value.tzinfo is None else value


def _as_dict(value: Any, parts: list[tuple[str, Convert | None]]) -> dict[str, Any]:
    values = [value.get(name) for name, _ in parts] if isinstance(value, dict) else list(value)
    return {name: _stored_item(item, convert) for (name, convert), item in zip(parts, values, strict=True)}

"""The types that users declare for keys and values of state."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.arrays import objects
from snapline.state.exact_cast import exact_array
from snapline.state.sql_types import MAX_DEPTH, parse_type

_CLASSES: Final[Mapping[type, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us", tz="UTC"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("ns"),
    datetime.timedelta: pa.duration("us"),
}
_WIDER: Final = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
)
"""Each type can hold every value of those before it."""


@dataclass(frozen=True, slots=True)
class StateType:
    """The type of a state's keys or values. `arrow` is None for any Python object, which is then pickled."""

    arrow: pa.DataType | None

    @property
    def is_object(self) -> bool:
        return self.arrow is None

    @property
    def stored(self) -> pa.DataType:
        """The type of the column that holds the values."""
        return pa.binary() if self.arrow is None else self.arrow

    def accepts(self, stored: StateType) -> bool:
        """Whether state written with the type `stored` can be read as this type: the same, or a wider one."""
        return self == stored or any(
            self.arrow in family and stored.arrow in family and family.index(stored.arrow) < family.index(self.arrow)
            for family in _WIDER
        )

    def convert(self, value: Any) -> Any:
        """`value` as a restore would return it: equal to the one given, except for the precision of floats.

        Maps come back as dicts, structs as dicts with all of their fields. Raises `UserCodeError` for a value that
        would change (1.5 to 1, a datetime without a time zone to UTC) or is of the wrong type.
        """
        if self.arrow is None:
            return value
        return exact_array([value], self.arrow)[0].as_py(maps_as_pydicts="strict")

    def convert_all(self, values: Sequence[Any]) -> list[Any]:
        """Convert many values at once, much faster than one by one. Raises what `convert` raises."""
        if self.arrow is None or (self.arrow == pa.binary() and all(type(value) is bytes for value in values)):
            return list(values)
        try:
            return objects(exact_array(values, self.arrow))
        except UserCodeError:
            # Arrow takes dicts or tuples for structs, but not both in one array.
            return [self.convert(value) for value in values]

    def __str__(self) -> str:
        return "any Python object" if self.arrow is None else str(self.arrow)


OBJECT: Final = StateType(None)


def resolve(declared: object) -> StateType:
    """The type that a user declared. Accepts:

    * `object`: any Python object;
    * a Python class: `bool`, `int` (64 bits), `float`, `str`, `bytes`, and of `datetime` the `datetime` (microseconds
      of UTC), `date`, `time` and `timedelta`;
    * text as Spark accepts it: `"bigint"`, `"a INT, b STRING NOT NULL"`, `"map<string,array<double>>"`;
    * a type of `pyspark.sql.types`; field metadata is ignored;
    * a pyarrow type, a pyarrow field (its type counts), or a pyarrow schema (a struct).

    Raises `ConfigurationError` for anything else, and for types that state cannot hold.
    """
    if isinstance(declared, StateType):
        return declared
    if declared is object:
        return OBJECT
    arrow = _arrow_type(declared)
    _check_storable(arrow, 0)
    return StateType(arrow)


def _arrow_type(declared: Any) -> pa.DataType:
    if isinstance(declared, str):
        return parse_type(declared)
    if isinstance(declared, pa.DataType):
        return declared
    if isinstance(declared, pa.Field):
        return declared.type
    if isinstance(declared, pa.Schema):
        return pa.struct(list(declared))
    if isinstance(declared, type):
        return _class_type(declared)
    if callable(getattr(declared, "jsonValue", None)):
        return _spark_type(declared.jsonValue(), 0)
    if callable(getattr(declared, "simpleString", None)):
        return parse_type(declared.simpleString())
    raise ConfigurationError(
        f"{declared!r} is not a type; use a Python class, text such as 'map<string,bigint>', a Spark type, "
        "a pyarrow type, or `object` for any Python object"
    )


def _class_type(declared: type) -> pa.DataType:
    if declared in _CLASSES:
        return _CLASSES[declared]
    if declared is decimal.Decimal:
        raise ConfigurationError("a Decimal needs its size: say precision and scale: decimal(p,s), as 'decimal(10,2)'")
    if callable(getattr(declared, "simpleString", None)):
        raise ConfigurationError(f"{declared.__name__} is a class of Spark types; say {declared.__name__}()")
    known = ", ".join(known.__name__ for known in _CLASSES)
    raise ConfigurationError(
        f"the class {declared.__name__} is not a type of state: use one of {known}, "
        "text such as 'array<bigint>', or `object` for any Python object"
    )


def _spark_type(value: object, depth: int) -> pa.DataType:
    """The type of Spark's JSON form, which unlike the text form keeps odd names and nullability."""
    _check_depth(depth)
    match value:
        case str():
            return parse_type(value)
        case {"type": "struct", "fields": [*fields]}:
            return pa.struct(
                [
                    pa.field(field["name"], _spark_type(field["type"], depth + 1), nullable=field["nullable"])
                    for field in fields
                ]
            )
        case {"type": "array", "elementType": element, "containsNull": bool(nullable)}:
            return pa.list_(pa.field("element", _spark_type(element, depth + 1), nullable=nullable))
        case {"type": "map", "keyType": key, "valueType": item, "valueContainsNull": bool(nullable)}:
            item_field = pa.field("value", _spark_type(item, depth + 1), nullable=nullable)
            return pa.map_(_spark_type(key, depth + 1), item_field)
        case {"type": "udt"}:
            return parse_type("udt")
        case {"name": str(), "type": inner}:
            return _spark_type(inner, depth + 1)
    raise ConfigurationError(f"{value!r} describes no Spark type that state can hold; use text such as 'bigint'")


def _check_storable(arrow: pa.DataType, depth: int) -> None:
    """Raise `ConfigurationError` for types that Python values cannot be converted to and back."""
    _check_depth(depth)
    problem = _storage_problem(arrow)
    if problem is not None:
        raise ConfigurationError(f"the type {arrow} cannot be held in state: {problem}, or `object`")
    if pa.types.is_struct(arrow):
        names = [field.name for field in arrow]
        for name in names:
            if names.count(name) > 1:
                raise ConfigurationError(f"the type {arrow} has two fields {name!r}; name them differently")
    for index in range(arrow.num_fields):
        _check_storable(arrow.field(index).type, depth + 1)


def _storage_problem(arrow: pa.DataType) -> str | None:
    if isinstance(arrow, pa.BaseExtensionType):
        return f"use its storage type {arrow.storage_type}"
    if pa.types.is_null(arrow):
        return "it has no values; use the type the values will have"
    if pa.types.is_dictionary(arrow):
        return f"use {arrow.value_type}"
    if pa.types.is_struct(arrow) and arrow.num_fields == 0:
        return "it has no fields; add one"
    if pa.types.is_union(arrow) or pa.types.is_run_end_encoded(arrow):
        return "no Python value can be turned into it; use a struct"
    return None


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConfigurationError(f"at most {MAX_DEPTH} types may be nested inside each other; use `object`")


def has_views(arrow: pa.DataType) -> bool:
    """Whether a type is or contains one of Arrow's views: pyarrow cannot take single values from those."""
    if pa.types.is_string_view(arrow) or pa.types.is_binary_view(arrow):
        return True
    return any(has_views(arrow.field(index).type) for index in range(arrow.num_fields))

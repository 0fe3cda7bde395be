"""Types of Arrow and of PostgreSQL: which column takes which values, and what to make of a schema or a query."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from snapline.errors import ConfigurationError

_TEXT_CATEGORIES = frozenset("SUEGITZ")
"""Categories of types that are made from text: strings, own types, enums, geometry, networks, spans, internal."""
_JSON = frozenset({"json", "jsonb"})
_MAX_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column of a table. `kind` is the internal name of its type; `shown` is how SQL writes it."""

    name: str
    kind: str
    shown: str
    category: str = "U"
    is_required: bool = False
    is_generated: bool = False

    @property
    def element(self) -> str | None:
        """The type of the elements of an array; None if it is no array."""
        return self.kind[1:] if self.category == "A" and self.kind.startswith("_") else None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a dictionary, or the type itself."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def is_array(kind: pa.DataType) -> bool:
    """Whether values can be arrays of PostgreSQL: lists of what is not nested."""
    return bool(
        (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))
        and not pt.is_nested(kind.value_type)
    )


def sql_type(kind: pa.DataType) -> str | None:
    """What a column of a new table is declared as, so that it holds all values of an Arrow type; None if none can."""
    kind = plain_type(kind)
    if pt.is_int8(kind) or pt.is_int16(kind) or pt.is_uint8(kind):
        return "smallint"
    if pt.is_int32(kind) or pt.is_uint16(kind):
        return "integer"
    if pt.is_int64(kind) or pt.is_uint32(kind):
        return "bigint"
    if pt.is_uint64(kind):
        return "numeric(20)"
    if pt.is_float32(kind) or pt.is_float16(kind):
        return "real"
    if pt.is_float64(kind):
        return "double precision"
    if pt.is_boolean(kind):
        return "boolean"
    if _is_text(kind) or pt.is_null(kind):
        return "text"
    if _is_bytes(kind):
        return "bytea"
    if pt.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    if pt.is_date(kind):
        return "date"
    if pt.is_time(kind):
        return "time"
    if pt.is_duration(kind):
        return "interval"
    if pt.is_decimal(kind):
        return f"numeric({kind.precision}, {kind.scale})"
    if is_array(kind):
        inner = sql_type(kind.value_type)
        return None if inner is None else f"{inner}[]"
    return "jsonb" if pt.is_nested(kind) and not pt.is_union(kind) else None


def fits(kind: pa.DataType, column: PostgresColumn) -> bool:
    """Whether the column takes every value of an Arrow type as it is."""
    kind = plain_type(kind)
    if pt.is_null(kind):
        return True
    if column.kind in _JSON:
        return _is_text(kind) or (pt.is_nested(kind) and not pt.is_union(kind))
    if column.element is not None:
        element = PostgresColumn(column.name, column.element, column.shown, _category(column.element))
        return is_array(kind) and fits(kind.value_type, element)
    if _is_text(kind):
        return column.category in _TEXT_CATEGORIES
    if pt.is_fixed_size_binary(kind) and kind.byte_width == 16 and column.kind == "uuid":
        return True
    return column.kind in _takers(kind)


def _takers(kind: pa.DataType) -> tuple[str, ...]:
    declared = sql_type(kind)
    if declared is None:
        return ()
    chains = {
        "smallint": ("int2", "int4", "int8", "numeric", "float4", "float8"),
        "integer": ("int4", "int8", "numeric", "float8"),
        "bigint": ("int8", "numeric"),
        "numeric(20)": ("numeric",),
        "real": ("float4", "float8"),
        "double precision": ("float8",),
        "boolean": ("bool",),
        "bytea": ("bytea",),
        "timestamp": ("timestamp",),
        "timestamptz": ("timestamptz",),
        "date": ("date",),
        "time": ("time",),
        "interval": ("interval",),
    }
    return ("numeric",) if pt.is_decimal(kind) else chains.get(declared, ())


def check_columns(call: str, table: str, schema: pa.Schema, columns: list[PostgresColumn]) -> None:
    """Raises `ConfigurationError` that names each column of the rows that the table cannot take, and what to do."""
    by_name = {column.name: column for column in columns}
    problems: list[str] = []
    for field in schema:
        column = by_name.get(field.name)
        if column is None:
            declared = sql_type(field.type)
            problems.append(f"it has no column {field.name!r}: ALTER TABLE {table} ADD COLUMN {field.name} {declared}")
        elif column.is_generated:
            problems.append(f"its column {field.name!r} is computed by the server: leave it out with columns=[...]")
        elif not fits(field.type, column):
            problems.append(
                f"its column {field.name!r} is {column.shown}, and the rows have {field.type}: cast the rows, or "
                f"ALTER TABLE {table} ALTER COLUMN {field.name} TYPE {sql_type(field.type)}"
            )
    problems += [
        f"its column {column.name!r} must not be null and has no default, and the rows do not have it"
        for column in columns
        if column.is_required and column.name not in schema.names
    ]
    if problems:
        raise ConfigurationError(f"{call}: the table {table} does not fit the rows: {'; '.join(problems)}")


def check_types(call: str, schema: pa.Schema) -> None:
    """Raises `ConfigurationError` if a type has no counterpart in PostgreSQL."""
    if not schema.names:
        raise ConfigurationError(f"{call}: the rows have no columns")
    for field in schema:
        if sql_type(field.type) is None:
            raise ConfigurationError(
                f"{call}: PostgreSQL has no type for the column {field.name!r}, {field.type}; change it with "
                "map_batches()"
            )


def arrow_type(kind: str, modifier: int = -1) -> pa.DataType:
    """The Arrow type of values of a PostgreSQL type, by its internal name and modifier; text for what Arrow lacks."""
    if kind.startswith("_") and _category(kind[1:]) != "U":
        inner = arrow_type(kind[1:], modifier)
        # Elements come as JSON, which is exact for these.
        simple = pt.is_integer(inner) or pt.is_boolean(inner) or pt.is_floating(inner) or _category(kind[1:]) == "S"
        return pa.list_(inner) if simple else pa.string()
    if kind == "numeric" and modifier >= 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if precision <= _MAX_DECIMAL_DIGITS and scale <= precision:
            return pa.decimal128(precision, scale)
    return _FROM.get(kind, pa.string())


_FROM: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}

_CATEGORIES = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid"), "N"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), "S"),
    **dict.fromkeys(("date", "time", "timestamp", "timestamptz"), "D"),
    "bool": "B",
    "interval": "T",
}


def _category(kind: str) -> str:
    return _CATEGORIES.get(kind, "U")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind) or pt.is_binary_view(kind)
    )

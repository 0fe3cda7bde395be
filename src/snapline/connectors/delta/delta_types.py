"""Types of columns: what Delta can hold, and whether rows fit a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from snapline.errors import ConfigurationError, UserCodeError

PARTITION_TYPES = "text, whole numbers, dates, booleans and decimals"

_FORBIDDEN = re.compile(r"[ ,;{}()\n\t=]")
_SAME = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
    pa.date32(),
}  # fmt: skip
_SIMPLER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}


def stored_type(given: pa.DataType) -> pa.DataType | None:
    """The type as Delta stores it; None if it cannot."""
    if given in _SAME:
        return given
    if given in _SIMPLER:
        return _SIMPLER[given]
    types = pa.types
    if types.is_timestamp(given):
        return pa.timestamp("us", None if given.tz is None else "UTC")
    if types.is_fixed_size_binary(given):
        return pa.binary()
    if types.is_decimal128(given):
        return given
    if types.is_dictionary(given):
        return stored_type(given.value_type)
    if types.is_map(given):
        key, item = stored_type(given.key_type), stored_type(given.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        element = stored_type(given.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    if types.is_struct(given):
        inner = [(field.name, stored_type(field.type)) for field in given]
        return None if any(type_ is None for _, type_ in inner) else pa.struct(inner)
    return None


def stored_schema(given: pa.Schema, what: str) -> pa.Schema:
    """The schema as Delta stores it, all columns nullable; `ConfigurationError` if it cannot."""
    seen: dict[str, str] = {}
    fields = []
    for field in given:
        type_ = stored_type(field.type)
        if type_ is None:
            raise ConfigurationError(
                f"{what}: the column {field.name!r} is of type {field.type}, which Delta tables cannot hold; change it "
                "with map_batches()"
            )
        if not field.name or _FORBIDDEN.search(field.name):
            raise ConfigurationError(
                f"{what}: the column {field.name!r} has a space or one of ,;{{}}()= in its name, or none; rename it"
            )
        if field.name.lower() in seen:
            raise ConfigurationError(
                f"{what}: Delta takes the columns {seen[field.name.lower()]!r} and {field.name!r} for the same one; "
                "rename one of them"
            )
        seen[field.name.lower()] = field.name
        fields.append(pa.field(field.name, type_))
    return pa.schema(fields)


def fitted(rows: pa.Schema, table: pa.Schema, what: str, *, may_add: bool) -> tuple[pa.Schema, list[pa.Field]]:
    """The types that rows are written with to a table, and the columns that it lacks.

    `rows` comes from `stored_schema`. Raises `ConfigurationError` if the rows do not fit.
    """
    by_lower = {field.name.lower(): field for field in table}
    fields: list[pa.Field] = []
    new: list[pa.Field] = []
    for field in rows:
        there = by_lower.get(field.name.lower())
        if there is None:
            new.append(field)
            fields.append(field)
            continue
        if there.name != field.name:
            raise ConfigurationError(
                f"{what}: the rows have the column {field.name!r}, the table {there.name!r}; use the same letters"
            )
        type_ = stored_type(there.type) or there.type
        if not _widens(field.type, type_):
            raise ConfigurationError(
                f"{what}: the column {field.name!r} is {type_} in the table and {field.type} in the rows; cast it with "
                "map_batches(), or write to another table"
            )
        fields.append(pa.field(field.name, type_, there.nullable))
    if new and not may_add:
        raise ConfigurationError(
            f"{what}: the table has no column {', '.join(repr(field.name) for field in new)}; drop it from the rows, "
            'or let the sink add it with new_columns="add"'
        )
    names = set(rows.names)
    for field in table:
        if not field.nullable and field.name not in names:
            raise ConfigurationError(
                f"{what}: the table needs a value in the column {field.name!r} (NOT NULL), and the rows have no such "
                "column; add it with map_batches()"
            )
    return pa.schema(fields), new


def check_partition_columns(names: Sequence[str], schema: pa.Schema, what: str) -> None:
    """Raises `ConfigurationError` if the table cannot be partitioned by these columns."""
    for name in names:
        if name not in schema.names:
            raise ConfigurationError(f"{what}: partition_by names {name!r}, which is not a column of the rows")
        type_ = schema.field(name).type
        types = pa.types
        if not (
            types.is_string(type_)
            or types.is_signed_integer(type_)
            or types.is_date(type_)
            or types.is_boolean(type_)
            or types.is_decimal(type_)
        ):
            raise ConfigurationError(
                f"{what}: the table cannot be partitioned by {name!r} of type {type_}, only by {PARTITION_TYPES}; add "
                "such a column with map_batches(), for example the date of a timestamp"
            )
    if names and len(names) == len(schema.names):
        raise ConfigurationError(f"{what}: partition_by names all columns; leave at least one for the files")


class Fit:
    """Gives batches the columns and types of a table's files. One schema of batches at a time."""

    def __init__(self, given: pa.Schema, target: pa.Schema, what: str) -> None:
        self.given = given
        self.target = target
        self._what = what
        self._plain = given.remove_metadata() == target

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises `UserCodeError` for values that do not fit."""
        if self._plain:
            return batch.replace_schema_metadata(None)
        columns = [self._column(column, field) for column, field in zip(batch.columns, self.target, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.target)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if not field.nullable and column.null_count:
            raise UserCodeError(
                f"{self._what}: a row has no value in the column {field.name!r}, which is NOT NULL in the table; "
                "filter such rows out, or give them a value"
            )
        if column.type == field.type:
            return column
        try:
            return column.cast(field.type)
        except pa.ArrowException as error:
            raise UserCodeError(
                f"{self._what}: the column {field.name!r} cannot be written as {field.type}: {error}; cast it with "
                "map_batches()"
            ) from error


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether every value of one type is a value of the other."""
    if given == wanted:
        return True
    types = pa.types
    if types.is_signed_integer(given) and types.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if types.is_float32(given) and types.is_float64(wanted):
        return True
    if types.is_decimal128(given) and types.is_decimal128(wanted):
        return bool(given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale)
    return False

"""Schemas of streams: checked when the job is built, and enforced while it runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from snapline.errors import ConfigurationError, UserCodeError
from snapline.state.batch_keys import key_types
from snapline.state.exact_cast import exact_cast
from snapline.state.state_types import resolve

_FIELD = re.compile(r"FieldRef\.Name\((.*?)\)")
"""How Arrow names a missing column."""


Row: TypeAlias = dict[str, Any]
"""The values of one row by column."""


class SparkType(Protocol):
    """A `pyspark.sql.types.StructType`, described by its method, since pyspark is optional."""

    def jsonValue(self) -> Any: ...  # noqa: N802  # Spark's name


SchemaLike: TypeAlias = pa.Schema | str | SparkType
"""A schema: `pyarrow.schema(...)`, text such as "user STRING, n BIGINT", or a `StructType`."""


def checked_schema(schema: SchemaLike, what: str) -> pa.Schema:
    """`schema` as an Arrow schema without metadata; `ConfigurationError` if a stream cannot have it."""
    schema = _as_schema(schema, what)
    if not schema.names:
        raise ConfigurationError(f"the schema of {what} has no columns; rows need at least one")
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise ConfigurationError(f"the schema of {what} has the column {twice[0]!r} more than once; rename one of them")
    return schema.remove_metadata()


def _as_schema(schema: SchemaLike, what: str) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if not isinstance(schema, str | type) and not callable(getattr(schema, "jsonValue", None)):
        raise ConfigurationError(
            f"the schema of {what} is {schema!r}; give a pyarrow.Schema, text such as 'user STRING, n BIGINT', or a "
            "Spark StructType"
        )
    try:
        kind = resolve(schema).arrow
    except ConfigurationError as error:
        raise ConfigurationError(f"the schema of {what}: {error}") from error
    if kind is None or not pa.types.is_struct(kind):
        raise ConfigurationError(
            f"the schema of {what} is {schema!r}, a type without columns; name them, as in 'value {schema}'"
        )
    return pa.schema(list(kind))


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def key_type(schema: pa.Schema, columns: tuple[str, ...]) -> pa.DataType:
    """The type of a key of these columns, a struct for several; `ConfigurationError` if they cannot be a key."""
    if not columns:
        raise ConfigurationError("key_by() needs at least one column; to bring all rows together use global_()")
    fields: list[pa.Field] = []
    for column in columns:
        if not isinstance(column, str):
            raise ConfigurationError(
                f"key_by({column!r}): keys are columns; make one of it with with_columns(key=...) or map_batches(), "
                "and give its name"
            )
        if column not in schema.names:
            raise ConfigurationError(f"key_by: {no_column(column, schema)}")
        if column in (field.name for field in fields):
            raise ConfigurationError(f"key_by: the column {column!r} is given twice; leave one out")
        kind = decoded_type(schema.field(column).type)
        if pa.types.is_nested(kind):
            raise ConfigurationError(
                f"key_by: the column {column!r} is {kind}; key by plain values, which map_batches() can take out of it"
            )
        try:
            key_types(resolve(kind), "key")
        except ConfigurationError as error:
            raise ConfigurationError(f"key_by: the column {column!r} is {kind}: {error}") from error
        fields.append(pa.field(column, kind))
    return fields[0].type if len(fields) == 1 else pa.struct(fields)


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values in a column of this type: that of a dictionary is decoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def time_type(column: Any, schema: pa.Schema, what: str) -> pa.DataType:
    """The type of a time column; `ConfigurationError`, which starts with `what`, if there is none of this name."""
    if not isinstance(column, str) or column not in schema.names:
        raise ConfigurationError(f"{what}: {no_column(column, schema)}")
    kind = schema.field(column).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise ConfigurationError(
            f"{what}: the column {column!r} is {kind}; use a timestamp, or whole numbers of milliseconds since 1970"
        )
    return kind


def no_column(column: Any, schema: pa.Schema) -> str:
    """Says that a schema has no such column, and which it has: the end of an error message."""
    there = f"there is no column {column!r}"
    if not isinstance(column, str):
        return f"{column!r} is not a column name; give text"
    known: Sequence[str] = schema.names
    near = get_close_matches(column, known, 1)
    if not column.isidentifier() and (parts := _as_expression(column, known)) is not None:
        return f"{there}; text is the name of a column. An expression is one of pyarrow.compute: write {parts}"
    return f"{there}; there are {_listed(known)}" + (f". Did you mean {near[0]!r}?" if near else "")


def misfit(error: Exception, schema: pa.Schema) -> str:
    """Says why Arrow cannot evaluate an expression for a schema: the end of an error message."""
    missing = [found for found in _FIELD.findall(str(error)) if found not in schema.names]
    if missing:
        return f"is wrong: {no_column(missing[0], schema)}"
    columns = ", ".join(f"{field.name} {field.type}" for field in schema)
    return f"does not fit rows with the columns {columns}: {error}"


def _as_expression(text: str, names: Sequence[str]) -> str | None:
    """SQL-like text rewritten for `pyarrow.compute`, or None if it names none of these columns."""
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    written, found = re.subn(rf"(?<![\w'\"])({pattern})(?![\w'\"])", r"pc.field('\1')", text)
    return written if found else None


def conform(batch: pa.RecordBatch, schema: pa.Schema, what: str) -> pa.RecordBatch:
    """`batch` with exactly this schema: columns are reordered, and cast if that changes no value.

    `UserCodeError` names `what`, which returned the batch, and the difference.
    """
    if batch.schema.equals(schema, check_metadata=True):
        return batch
    if Counter(batch.schema.names) != Counter(schema.names):
        raise UserCodeError(_other_columns(batch.schema, schema, what))
    columns = [_conforming(batch.column(field.name), field, what) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _conforming(column: pa.Array, field: pa.Field, what: str) -> pa.Array:
    if not field.nullable and column.null_count:
        raise UserCodeError(f"{what} gave nulls in the column {field.name!r}, which its schema says has none")
    if column.type == field.type:
        return column
    try:
        return exact_cast(column, field.type, may_round=False)
    except UserCodeError as error:
        raise UserCodeError(
            f"{what} gave the column {field.name!r} as {column.type}, its schema says {field.type}: {error}. "
            "Cast it there, or give the right schema="
        ) from error


def _other_columns(given: pa.Schema, declared: pa.Schema, what: str) -> str:
    missing = [name for name in declared.names if name not in given.names]
    extra = [name for name in given.names if name not in declared.names]
    parts = [f"{word} {_listed(names)}" for word, names in (("without", missing), ("with", extra)) if names]
    difference = " and ".join(parts) or "with a column twice"
    return f"{what} gave a batch {difference}; its schema has {_listed(declared.names)}. Give the right schema="


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)

"""Converts batches to rows of Python values and back, for functions of single rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from operator import itemgetter
from typing import Any

import pyarrow as pa

from snapline.contracts.schemas import Row
from snapline.errors import SnaplineError, TransientError, UserCodeError
from snapline.state.arrays import has_map
from snapline.state.exact_cast import exact_array, exact_cast
from snapline.text import error_text, shortened

MAX_ROWS = 10_000
"""About how many rows returned by functions are collected before they are emitted."""


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch; structs and maps are dicts."""
    schema = batch.schema
    own = [name for name, kind in zip(schema.names, schema.types, strict=True) if _is_slow(kind)]
    if not own:
        rows: list[Row] = batch.to_pylist()
        return rows
    columns = [pa.nulls(batch.num_rows) if name in own else batch.column(name) for name in schema.names]
    rows = pa.RecordBatch.from_arrays(columns, names=schema.names).to_pylist()
    for name in own:
        for row, value in zip(rows, values_of(batch.column(name)), strict=True):
            row[name] = value
    return rows


def values_of(column: pa.Array) -> list[Any]:
    """The values of one column, as in `rows_of`."""
    if not _is_slow(column.type):
        plain: list[Any] = column.to_pylist()
        return plain
    if pa.types.is_timestamp(column.type):
        return _times(column)
    values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return values


def _is_slow(kind: pa.DataType) -> bool:
    """Whether Arrow converts this type value by value in Python, or maps to lists of pairs."""
    if pa.types.is_timestamp(kind):
        return kind.unit != "ns" and kind.tz in (None, "UTC")
    return has_map(kind)


def _times(column: pa.Array) -> list[datetime | None]:
    values: list[datetime | None] = column.to_numpy(zero_copy_only=False).astype("datetime64[us]").tolist()
    if column.type.tz is None:
        return values
    zone, combine = pa.scalar(0, column.type).as_py().tzinfo, datetime.combine
    # Several times faster than `replace`.
    return [None if value is None else combine(value, value.time(), zone) for value in values]


def batch_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Rows that a function returned, as a batch. Raises `UserCodeError` unless they fit the schema exactly.

    Each must have all columns and no others: a wrong name must not turn into nulls. `what` names the function.
    """
    try:
        lengths = set(map(len, rows))
        columns = [list(map(itemgetter(name), rows)) for name in schema.names]
    except (TypeError, KeyError, AttributeError, IndexError):
        raise _wrong_row(rows, schema, what) from None
    if lengths - {len(schema)}:
        raise _wrong_row(rows, schema, what)
    return pa.RecordBatch.from_arrays(
        [column_of(column, field, what) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def column_of(values: Sequence[Any], field: pa.Field, what: str) -> pa.Array:
    """Values that a function returned for a column, as an array. Raises `UserCodeError` for values of another type."""
    try:
        array = array_of(values, field.type)
    except UserCodeError as error:
        raise UserCodeError(
            f"{what} gave the column {field.name!r} other values than its schema says, {field.type}: {error}"
        ) from error
    if not field.nullable and array.null_count:
        raise UserCodeError(f"{what} gave None for the column {field.name!r}, which its schema says has no nulls")
    return array


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Python values as an array of a type, unchanged. Raises `UserCodeError` if that is impossible.

    Same as `exact_array`, but checks common types without a Python loop over the values.
    """
    try:
        if pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_boolean(kind):
            # The type that Arrow infers shows what the values are; with a given type it would truncate 1.5 to 1.
            return exact_cast(pa.array(values), kind, may_round=False)
        if pa.types.is_float64(kind):
            return pa.array(values, kind)
        if pa.types.is_timestamp(kind) and _are_times(values, kind):
            return exact_cast(pa.array(values, pa.timestamp("us", kind.tz)), kind, may_round=False)
    except (pa.ArrowException, UserCodeError, TypeError, ValueError, OverflowError):
        pass  # `exact_array` finds the wrong value, or none
    return exact_array(values, kind)


def _are_times(values: Sequence[Any], kind: pa.DataType) -> bool:
    is_naive = kind.tz is None
    return all(value is None or (type(value) is datetime and (value.tzinfo is None) == is_naive) for value in values)


def _wrong_row(rows: Sequence[Any], schema: pa.Schema, what: str) -> UserCodeError:
    for row in rows:
        if not isinstance(row, Mapping):
            return UserCodeError(f"{what} gave {shortened(row)}; a row must be a dict with a value for each column")
        missing = [name for name in schema.names if name not in row]
        extra = [name for name in row if name not in schema.names]
        if missing or extra:
            break
    else:
        return UserCodeError(f"{what} gave rows that are not dicts")
    parts = [
        f"{word} {', '.join(map(repr, names))}" for word, names in (("without", missing), ("with", extra)) if names
    ]
    near = [found[0] for name in extra if (found := get_close_matches(str(name), missing, 1))]
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    named = ", ".join(map(repr, schema.names))
    return UserCodeError(
        f"{what} gave a row {' and '.join(parts)}{hint}; its schema has {named}: a row must have exactly these, with "
        "None for null"
    )


def row_at(batch: pa.RecordBatch, number: int) -> Row:
    """One row of a batch."""
    return rows_of(batch.slice(number, 1))[0]


def raised(what: str, error: Exception, where: str = "") -> SnaplineError:
    """The error to raise when a user function has raised: it names the operator, and ends with `where`."""
    if isinstance(error, UserCodeError):
        text, kind = str(error), TransientError if isinstance(error, TransientError) else UserCodeError
        return kind(f"{text if text.startswith(what) else f'{what}: {text}'}{where}")
    if isinstance(error, SnaplineError):
        return error
    return UserCodeError(f"{what} raised {error_text(error)}{where}")


class UserCode:
    """Turns errors of the user functions called in this block into those of `raised`; faster than a generator."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise raised(self._what, error) from error

"""Statistics of data files for the table's log, which let readers skip files."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

INDEXED_COLUMNS = 32
"""Columns with statistics, from the first on, as other writers of Delta have it."""

MAX_TEXT = 32

_MILLISECOND = datetime.timedelta(milliseconds=1)
_LAST_CHARACTER = "\U0010ffff"
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def has_nan(batch: pa.RecordBatch) -> bool:
    """Whether a floating-point column holds NaN, which the statistics of Parquet do not tell."""
    return any(
        pc.any(pc.is_nan(column)).as_py() or False for column in batch.columns if pa.types.is_floating(column.type)
    )


def file_statistics(metadata: pq.FileMetaData, schema: pa.Schema, *, holds_nan: bool = False) -> str:
    """The `stats` of an add action, as JSON: rows, and least and greatest values and nulls of the first columns.

    Bounds may be wide, never narrow. If one cannot be given there are none at all: readers of `deltalake` take a column
    without a bound beside others that have theirs for one without rows. NaN counts as the greatest for Spark but not
    for Parquet, so a file that `holds_nan` has none.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    is_whole = not holds_nan
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    for field in list(schema)[:INDEXED_COLUMNS]:
        place = places.get(field.name)
        if place is None:  # nested
            continue
        found = [group.column(place).statistics for group in groups]
        if not found or any(entry is None or not entry.has_null_count for entry in found):
            is_whole = False
            continue
        nulls[field.name] = sum(entry.null_count for entry in found)
        # A group with nothing but nulls has no bounds, and needs none.
        bounded = [entry for entry, group in zip(found, groups, strict=True) if entry.null_count < group.num_rows]
        if not bounded or pa.types.is_binary(field.type):
            continue
        low, high = _bounds(bounded, field.type)
        is_whole = is_whole and low is not None and high is not None
        least[field.name], greatest[field.name] = low, high
    bounds = {"minValues": least, "maxValues": greatest} if is_whole else {}
    return _ENCODER.encode({"numRecords": metadata.num_rows, **bounds, "nullCount": nulls}).decode()


def _bounds(entries: Sequence[pq.Statistics], type_: pa.DataType) -> tuple[Any, Any]:
    """The least and the greatest value as the log has them; None for one that cannot be told."""
    if not all(entry.has_min_max for entry in entries):
        return None, None
    try:
        low, high = min(entry.min for entry in entries), max(entry.max for entry in entries)
        return _bound(low, type_, up=False), _bound(high, type_, up=True)
    except (OverflowError, ValueError):  # a time that Python does not have
        return None, None


def _bound(value: Any, type_: pa.DataType, *, up: bool) -> Any:
    if isinstance(value, bool | Decimal):
        return value
    if pa.types.is_floating(type_):
        return value if math.isfinite(value) else None
    if pa.types.is_string(type_):
        return _text(value, up=up)
    if pa.types.is_signed_integer(type_):
        return int(value)
    if pa.types.is_date(type_) and isinstance(value, datetime.date):
        return value.isoformat()
    if pa.types.is_timestamp(type_) and isinstance(value, datetime.datetime):
        # Whole milliseconds: readers take more digits differently.
        rest = value.microsecond % 1000
        value -= datetime.timedelta(microseconds=rest)
        if up and rest:
            value += _MILLISECOND
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if type_.tz is None else f"{text}Z"
    return None


def _text(value: str, *, up: bool) -> str | None:
    """The text, or of a long one the beginning; as the greatest with a character behind that no text exceeds."""
    if len(value) <= MAX_TEXT or not up:
        return value[:MAX_TEXT]
    return None if value[MAX_TEXT] == _LAST_CHARACTER else value[:MAX_TEXT] + _LAST_CHARACTER

"""Statistics of data files for the table's log, which let readers skip files."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

INDEXED_COLUMNS = 32
"""Columns with statistics, from the first on, as other writers of Delta have it."""

MAX_TEXT = 32

_MILLISECOND = datetime.timedelta(milliseconds=1)


def file_statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """The `stats` of an add action, as JSON: rows, and least and greatest values and nulls of the first columns.

    Bounds may be wide, never narrow. Those that would need rounding in an unsafe way are left out: the greatest of long
    texts, and of floating-point numbers, among which NaN counts as the greatest for Spark but not for Parquet.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    for field in list(schema)[:INDEXED_COLUMNS]:
        place = places.get(field.name)
        if place is None:  # nested
            continue
        found = [group.column(place).statistics for group in groups]
        if not found or any(entry is None or not entry.has_null_count for entry in found):
            continue
        nulls[field.name] = sum(entry.null_count for entry in found)
        # A group with nothing but nulls has no bounds, and needs none.
        bounded = [entry for entry, group in zip(found, groups, strict=True) if entry.null_count < group.num_rows]
        if bounded and all(entry.has_min_max for entry in bounded):
            low = _least(min(entry.min for entry in bounded), field.type)
            high = _greatest(max(entry.max for entry in bounded), field.type)
            if low is not None:
                least[field.name] = low
            if high is not None:
                greatest[field.name] = high
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _least(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_floating(type_):
        return value if abs(value) != float("inf") else None
    if pa.types.is_string(type_):
        return value[:MAX_TEXT]
    return _exact(value, type_, up=False)


def _greatest(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_string(type_):
        return value if len(value) <= MAX_TEXT else None
    return _exact(value, type_, up=True)


def _exact(value: Any, type_: pa.DataType, *, up: bool) -> Any:
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

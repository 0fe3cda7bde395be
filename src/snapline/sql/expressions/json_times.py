"""Dates and timestamps in the texts of JSON, with or without a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.datetime_functions import check_pattern, pattern_times
from snapline.sql.expressions.datetime_strings import date_days, local_timestamp_us, timestamp_us
from snapline.sql.expressions.integers import from_integers, integers
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.expressions.values import valid
from snapline.sql.expressions.zone_offsets import zone

_CLOCK = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-5][0-9](\.[0-9]{1,6})?"
_LOCAL = f"^{_CLOCK}$"
_WITH_OFFSET = f"^{_CLOCK}(Z|[+-][0-9]{{2}}:[0-9]{{2}})$"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_GREGORIAN_DAY = -141_427
"""1582-10-15, since when the Gregorian calendar holds."""
_DAY = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"


class TimeTexts:
    """How dates and timestamps are written: in a time zone, by the patterns of the options of `from_json`.

    Raises `UnsupportedError` for a pattern that does not run here.
    """

    def __init__(self, zone_name: str, options: Mapping[str, str]) -> None:
        self._zone_name = zone_name
        self._zone = zone(zone_name)
        self._patterns = {name: str(value) for name, value in options.items() if name.endswith("format")}
        for pattern in self._patterns.values():
            check_pattern(pattern, parsing=True)

    def value(self, text: str, type: pa.DataType) -> int | None:
        """Days or microseconds, or None if the text is no such time."""
        pattern = self._pattern(type)
        if pattern is not None:
            found = pattern_times(pa.array([text], pa.string()), pattern, self._zone_name, type)
            return int(integers(found)[0]) if found[0].is_valid else None
        if pa.types.is_date32(type):
            found_days = date_days(text)
            return found_days if found_days is not None else _day_number(text)
        return timestamp_us(text, self._zone) if type.tz else local_timestamp_us(text, zones=False)

    def as_text(self, type: pa.DataType) -> pa.DataType:
        """The struct with texts in place of the dates and timestamps among its fields."""
        return pa.struct([field.with_type(pa.string()) if _is_time(field.type) else field for field in type])

    def from_text(self, structs: pa.Array, type: pa.DataType) -> pa.Array | None:
        """The struct with the times that the texts are, or None if one of them is not beyond doubt."""
        if structs.type == type:
            return structs
        columns: list[pa.Array] = []
        for number, column in enumerate(structs.flatten()):
            wanted = type.field(number).type
            found = self._column(column, wanted) if _is_time(wanted) else column
            if found is None:
                return None
            columns.append(found)
        mask = pa.array(~valid(structs)) if structs.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(type), mask=mask)

    def _column(self, texts: pa.Array, type: pa.DataType) -> pa.Array | None:
        pattern = self._pattern(type)
        try:
            if pattern is None:
                return self._plain(texts, type)
            found = pattern_times(texts, pattern, self._zone_name, type)
        except pa.ArrowInvalid:
            return None  # One of them is no day of the calendar.
        return found if found.null_count == texts.null_count else None

    def _plain(self, texts: pa.Array, type: pa.DataType) -> pa.Array | None:
        if pa.types.is_date32(type):
            return pc.cast(texts, type) if _all_match(texts, _DAY) else None
        if type.tz and _all_match(texts, _WITH_OFFSET):
            return pc.cast(texts, type)
        if not _all_match(texts, _LOCAL):
            return None
        local = pc.cast(texts, pa.timestamp("us"))
        if not type.tz:
            return local
        there = valid(local)
        return from_integers(np.where(there, self._zone.utc(integers(local)), 0), there, type)

    def _pattern(self, type: pa.DataType) -> str | None:
        if pa.types.is_date32(type):
            return self._patterns.get("dateformat")
        return self._patterns.get("timestampformat" if type.tz else "timestampntzformat")


def _day_number(text: str) -> int | None:
    """The days since 1970 that a text counts in the Julian calendar before 1582, or None."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not -(2**31) <= number < 2**31:
        return None
    if number < _GREGORIAN_DAY:
        raise UnsupportedError("from_json of days before 1582 as numbers is not supported: write dates")
    return number


def _is_time(type: pa.DataType) -> bool:
    return bool(pa.types.is_date32(type) or pa.types.is_timestamp(type))


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False)

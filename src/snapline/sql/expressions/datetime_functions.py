"""Functions that write and read dates and times by patterns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import DAY_US, Integers, truncated_division
from snapline.sql.expressions.dates import fails
from snapline.sql.expressions.datetime_formatter import Formatter
from snapline.sql.expressions.datetime_reader import Reader
from snapline.sql.expressions.integers import by_text, from_integers, integers, strict_array
from snapline.sql.expressions.local_times import UTC, starts_of_days
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.values import Bools, valid
from snapline.sql.expressions.zone_offsets import Zone, zone
from snapline.sql.plans.trees import Expression

_SECOND_US = 1_000_000


_formatter = lru_cache(maxsize=256)(Formatter)
_reader = lru_cache(maxsize=256)(Reader)


def _refuse_unsupported(pattern: Expression, make: Callable[[str], Any]) -> None:
    """Raise `UnsupportedError` for a constant pattern; what Spark itself refuses is an error of the rows."""
    if pattern.kind == "Literal" and pattern.arguments["value"] is not None:
        with suppress(SparkError):
            make(pattern.arguments["value"])


def _zone_of(expression: Expression, type: pa.DataType) -> tuple[Zone, str]:
    name = expression.arguments.get("timeZoneId") or "UTC"
    return (UTC, "UTC") if pa.types.is_timestamp(type) and not type.tz else (zone(name), name)


@kernel("DateFormatClass")
def _date_format(expression: Expression) -> Kernel:
    _refuse_unsupported(expression.children[1], _formatter)
    place, name = _zone_of(expression, expression.children[0].type)
    return by_text(1, lambda pattern: _writer(pattern, place, name, lambda times: times), expression.type)


@kernel("FromUnixTime")
def _from_unix_time(expression: Expression) -> Kernel:
    _refuse_unsupported(expression.children[1], _formatter)
    place, name = _zone_of(expression, expression.children[0].type)
    # The product wraps as Java's does.
    return by_text(1, lambda pattern: _writer(pattern, place, name, lambda times: times * _SECOND_US), expression.type)


def pattern_texts(array: pa.Array, pattern: str, zone_name: str) -> pa.Array:
    """Dates or timestamps written by a pattern, null where they are; `zone_name` is the time zone of the session."""
    if pa.types.is_date32(array.type):
        array = array.cast(pa.timestamp("us"))
    place, name = (zone(zone_name), zone_name) if array.type.tz else (UTC, "UTC")
    return _writer(pattern, place, name, lambda times: times)(array)


def pattern_times(texts: pa.Array, pattern: str, zone_name: str, type: pa.DataType) -> pa.Array:
    """Dates or timestamps read by a pattern, null where the text is or does not fit."""
    there = valid(texts)
    reading = _reader(pattern).read(texts.filter(pa.array(there)))
    known = there.copy()
    known[there] = reading.right
    data = np.zeros(len(texts), np.int64)
    is_instant = pa.types.is_timestamp(type) and type.tz
    times = reading.times(zone(zone_name)) if is_instant else reading.local
    data[there] = np.where(reading.right, times // DAY_US if pa.types.is_date32(type) else times, 0)
    return from_integers(data, known, type)


def check_pattern(pattern: str, parsing: bool) -> None:
    """Raise `UnsupportedError` for a pattern that does not run here; what Spark refuses is an error of the rows."""
    with suppress(SparkError):
        (_reader if parsing else _formatter)(pattern)


def _writer(pattern: str, place: Zone, name: str, times: Callable[[Integers], Integers]) -> Callable[..., pa.Array]:
    def write(array: pa.Array) -> pa.Array:
        there = valid(array)
        if not there.any():
            return pa.nulls(len(array), pa.string())
        texts = _formatter(pattern).texts(times(integers(array)[there]), place, name)
        return texts if there.all() else _spread(texts, there)

    return write


def _spread(values: pa.Array, there: Bools) -> pa.Array:
    return values.take(pa.array(np.where(there, np.cumsum(there) - 1, 0), mask=~there))


@kernel("GetTimestamp", "UnixTimestamp", "ToUnixTimestamp")
def _parse(expression: Expression) -> Kernel:
    source, type = expression.children[0].type, expression.type
    in_seconds = expression.kind != "GetTimestamp"
    place, _ = _zone_of(expression, type if not in_seconds else pa.timestamp("us", "UTC"))
    if not pa.types.is_string(source):
        return by_text(1, lambda _pattern: lambda values: _converted(values, place, type, in_seconds), type)

    _refuse_unsupported(expression.children[1], _reader)

    def make(pattern: str) -> Callable[..., pa.Array]:
        def parse(texts: pa.Array) -> pa.Array:
            there = valid(texts)
            if not there.any():
                return pa.nulls(len(texts), type)
            return read(texts, there)

        def read(texts: pa.Array, there: Bools) -> pa.Array:
            reading = _reader_of(pattern, type).read(texts.filter(pa.array(there)))
            if fails(expression) and not reading.right.all():
                raise SparkError("CANNOT_PARSE_TIMESTAMP", "Text could not be parsed. Use `try_to_timestamp`.")
            times = np.where(reading.right, reading.times(place) if place is not UTC else reading.local, 0)
            known = there.copy()
            known[there] = reading.right
            data = np.zeros(len(texts), np.int64)
            data[there] = _whole_seconds(times) if in_seconds else times
            return from_integers(data, known, type)

        return parse

    return by_text(1, make, type)


def _reader_of(pattern: str, type: pa.DataType) -> Reader:
    """The reader of a pattern. For times without a zone, Spark has one error for all wrong patterns."""
    try:
        return _reader(pattern)
    except SparkError as error:
        if pa.types.is_timestamp(type) and not type.tz:
            message = f"Unrecognized datetime pattern: {pattern}."
            raise SparkError("INVALID_DATETIME_PATTERN.WITH_SUGGESTION", message) from error
        raise


def _converted(values: pa.Array, place: Zone, type: pa.DataType, in_seconds: bool) -> pa.Array:
    """Dates and timestamps as they are; the pattern has no meaning for them."""
    if pa.types.is_date(values.type):
        values = strict_array(lambda days: starts_of_days(days, place), [values], pa.timestamp("us", "UTC"))
    return strict_array(lambda times: _whole_seconds(times) if in_seconds else times, [values], type)


def _whole_seconds(times: Integers) -> Integers:
    return np.asarray(truncated_division(times, _SECOND_US))

"""Texts such as '5 minutes 30 seconds' as calendar intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_intervals import from_parts
from snapline.sql.expressions.values import valid

_UNITS: Final[Mapping[str, tuple[int, int, int]]] = {
    "year": (12, 0, 0),
    "month": (1, 0, 0),
    "week": (0, 7, 0),
    "day": (0, 1, 0),
    "hour": (0, 0, 3_600_000_000),
    "minute": (0, 0, 60_000_000),
    "second": (0, 0, 1_000_000),
    "millisecond": (0, 0, 1000),
    "microsecond": (0, 0, 1),
}
"""Months, days and microseconds of each unit."""

_PART = re.compile(rf"\s*([+-]?)\s*(\d*)(\.\d*)?\s+({'|'.join(_UNITS)})s?(?=\s|$)", re.IGNORECASE)
_PREFIX = re.compile(r"\s*interval\s", re.IGNORECASE)


def parsed_interval(text: str) -> tuple[int, int, int] | None:
    """Months, days and microseconds; None for a text that is no interval. Only seconds have fractions."""
    prefix = _PREFIX.match(text)
    at = prefix.end() - 1 if prefix else 0
    totals = [0, 0, 0]
    end = len(text.rstrip())
    if at >= end:
        return None
    while at < end:
        part = _PART.match(text, at)
        if part is None or not (part[2] or (part[3] and len(part[3]) > 1)):
            return None
        if part[3] and part[4].lower() != "second":
            return None
        sign = -1 if part[1] == "-" else 1
        amount = Decimal(f"{part[2] or '0'}{part[3] or ''}")
        for number, unit in enumerate(_UNITS[part[4].lower()]):
            totals[number] += sign * int(amount * unit)
        at = part.end()
    return totals[0], totals[1], totals[2]


def to_interval(array: pa.Array) -> pa.Array:
    """Texts as calendar intervals, null for those that are none, in each mode of Spark."""
    encoded = array.dictionary_encode()
    found = [parsed_interval(text) for text in encoded.dictionary.to_pylist()]
    parts = np.array([each or (0, 0, 0) for each in found], dtype=np.int64).reshape(len(found), 3)
    good = np.array([each is not None for each in found], dtype=np.bool_)
    there = valid(array)
    rows = np.where(there, encoded.indices.fill_null(0).to_numpy(zero_copy_only=False), 0)
    if not len(found):
        parts, good = np.zeros((1, 3), dtype=np.int64), np.zeros(1, dtype=np.bool_)
    chosen = parts[rows]
    return from_parts(chosen[:, 0], chosen[:, 1], chosen[:, 2], there & good[rows])

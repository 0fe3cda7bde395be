"""Calendar intervals on whole arrays: their months, days and microseconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.sql.expressions.calendar_days import Integers
from snapline.sql.expressions.values import Bools, valid

_LAYOUT = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])


def interval_parts(array: pa.Array) -> tuple[Integers, Integers, Integers]:
    """Months, days and microseconds; 0 for nulls."""
    data = np.frombuffer(array.buffers()[1], _LAYOUT, len(array), array.offset * _LAYOUT.itemsize)
    there = valid(array)
    months, days, nanos = (np.where(there, data[name], 0).astype(np.int64) for name in _LAYOUT.fields or ())
    return months, days, nanos // 1000


def from_parts(months: Integers, days: Integers, micros: Integers, there: Bools) -> pa.Array:
    """Calendar intervals, null where not `there`."""
    data = np.zeros(len(months), _LAYOUT)
    data["months"], data["days"], data["nanos"] = months, days, micros * 1000
    validity = None if there.all() else pa.array(there).buffers()[1]
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(months), [validity, pa.py_buffer(data.tobytes())])

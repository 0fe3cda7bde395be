"""Timestamps made from their parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import DAY_US, Integers, days_from
from snapline.sql.expressions.dates import fails, raise_field_out_of_bounds
from snapline.sql.expressions.integers import from_integers, integers
from snapline.sql.expressions.intervals import HOUR_US, MINUTE_US, microseconds
from snapline.sql.expressions.local_times import named_zone, session_zone
from snapline.sql.expressions.registry import Kernel, SparkError, kernel
from snapline.sql.expressions.timestamps import SECOND_US
from snapline.sql.expressions.values import Bools, of_arrays, valid
from snapline.sql.expressions.zone_offsets import Zone
from snapline.sql.plans.trees import Expression


@kernel("MakeTimestamp")
def _make_timestamp(expression: Expression) -> Kernel:
    type = expression.type
    session = session_zone(expression, type)

    def compute(*arrays: pa.Array) -> pa.Array:
        there = valid(*arrays)
        if len(arrays) > 6:
            _check_zones(arrays[6], there)
        year, month, day, hour, minute = (integers(array) for array in arrays[:5])
        days, exist = days_from(year, month, day)
        second = microseconds(arrays[5])
        fits = exist & (hour >= 0) & (hour < 24) & (minute >= 0) & (minute < 60)
        # A second of 60 is that of the next minute, but has no fraction.
        fits &= (second >= 0) & (second <= MINUTE_US)
        if fails(expression) and not fits[there].all():
            _raise_bad_part(there & ~fits, second)
        there &= fits
        local = np.where(there, days * DAY_US + hour * HOUR_US + minute * MINUTE_US + second, 0)
        if len(arrays) > 6:
            return _in_zones(local, there, arrays[6], type)
        return from_integers(session.utc(local), there, type)

    return of_arrays(compute)


def _raise_bad_part(wrong: Bools, second: Integers) -> None:
    row = int(np.argmax(wrong))
    if MINUTE_US < second[row] < MINUTE_US + SECOND_US:
        raise SparkError("INVALID_FRACTION_OF_SECOND", "Valid range for seconds is [0, 60] (inclusive).")
    raise_field_out_of_bounds()


def _check_zones(names: pa.Array, there: Bools) -> None:
    """Unknown zones are an error even where another part is wrong."""
    for name in names.filter(pa.array(there)).unique().to_pylist():
        named_zone(name)


def _in_zones(local: Integers, there: Bools, names: pa.Array, type: pa.DataType) -> pa.Array:
    result = local.copy()
    encoded = pc.if_else(pa.array(there), names, pa.scalar(None, pa.string())).dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(-1))
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        place: Zone = named_zone(name)
        rows = numbers == number
        result[rows] = place.utc(local[rows])
    return from_integers(result, there, type)

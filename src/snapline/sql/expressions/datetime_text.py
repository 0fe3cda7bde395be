"""Dates and timestamps as Spark writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.values import Bools, numbers, valid
from snapline.sql.expressions.zone_offsets import Times

_FIRST_DAY = -719_162
_LAST_DAY = 2_932_896
_DAY_US = 86_400_000_000


def date_texts(array: pa.Array) -> pa.Array:
    """The texts of dates: `2026-01-31`."""
    days = numbers(array.view(pa.int32())).astype(np.int64)
    there = valid(array)
    if not _is_usual(days, there):
        return pa.array(
            [_date(int(day)) if given else None for day, given in zip(days, there, strict=True)], pa.string()
        )
    return pc.cast(array, pa.string())


def timestamp_texts(local: Times, there: Bools) -> pa.Array:
    """The texts of local times: `2026-01-31 12:30:00.25`, without zeros at the end of the fraction."""
    days = local // _DAY_US
    if not _is_usual(days, there):
        rows = zip(days, local - days * _DAY_US, there, strict=True)
        return pa.array([f"{_date(int(d))} {_clock(int(u))}" if given else None for d, u, given in rows], pa.string())
    written = pc.cast(pa.array(local, pa.timestamp("us"), mask=~there), pa.string())
    return pc.ascii_rtrim(pc.ascii_rtrim(written, "0"), ".")  # six decimals are always written


def local_texts(local: Times, there: Bools) -> pa.Array:
    """The texts of local times with milliseconds: `2026-01-31T12:30:00.250`."""
    days = local // _DAY_US
    if _is_usual(days, there):
        milliseconds = pa.array(local // 1000, pa.timestamp("ms"), mask=None if there.all() else ~there)
        return pc.strftime(milliseconds, format="%Y-%m-%dT%H:%M:%S")
    rows = zip(days, local - days * _DAY_US, there, strict=True)
    return pa.array(
        [f"{_date(int(d))}T{_clock(int(u) // 1000 * 1000, 3)}" if given else None for d, u, given in rows], pa.string()
    )


def _is_usual(days: Times, there: Bools) -> bool:
    known = days[there]
    return not len(known) or bool(known.min() >= _FIRST_DAY and known.max() <= _LAST_DAY)


def _date(days: int) -> str:
    moved = np.datetime64(days, "D").astype(str)
    year, month, day = moved.rsplit("-", 2)
    number = int(year)
    sign = "-" if number < 0 else "+" if number > 9999 else ""
    return f"{sign}{abs(number):04d}-{month}-{day}"


def _clock(micros: int, places: int = 0) -> str:
    """The time of day with this many digits of the fraction, or with those that are not zero at the end."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if places:
        return f"{text}.{fraction:06d}"[: places - 6]
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text

"""Durations in milliseconds and sizes in bytes, from what people write."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import TypeAlias

from snapline.config.setting_checks import wrong

Duration: TypeAlias = str | timedelta | int
"""A number with a unit (`"2s"`), or a `timedelta`. The only bare number accepted is 0, which is 0 in every unit."""

Size: TypeAlias = str | int
"""A number with a unit (`"64MB"`), or a number of bytes."""

MAX_DURATION_MS = 100 * 365 * 86_400_000
MAX_SIZE_BYTES = 1 << 60

_MILLISECONDS = {
    unit: factor
    for factor, units in (
        (1, ("ms", "milli", "millis", "millisecond", "milliseconds")),
        (1_000, ("s", "sec", "secs", "second", "seconds")),
        (60_000, ("m", "min", "mins", "minute", "minutes")),
        (3_600_000, ("h", "hour", "hours")),
        (86_400_000, ("d", "day", "days")),
    )
    for unit in units
}
_BYTES = {
    unit: factor
    for factor, units in (
        (1, ("b", "byte", "bytes")),
        (1 << 10, ("k", "kb", "kib")),
        (1 << 20, ("m", "mb", "mib")),
        (1 << 30, ("g", "gb", "gib")),
        (1 << 40, ("t", "tb", "tib")),
    )
    for unit in units
}
_QUANTITY = re.compile(r"\s*(?P<number>[0-9]{1,20}(?:\.[0-9]{1,20})?)\s*(?P<unit>[A-Za-z]*)\s*")


def duration_ms(value: Duration, *, setting: str = "duration") -> int:
    """Milliseconds of `value`; error messages name `setting`.

    Units are ms, s, min, h and d, also spelled out and in any case. A fraction of a millisecond is rounded up, so that
    a small duration never becomes 0, which often means "off".
    """
    if isinstance(value, timedelta):
        milliseconds = -(-value // timedelta(milliseconds=1))
    elif isinstance(value, str):
        milliseconds = _quantity(value, setting, _MILLISECONDS, kind="duration", example="2s")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value != 0:
            raise wrong(setting, value, f'a bare number has no unit; add one, for example "{value}ms" or "{value}s"')
        milliseconds = 0
    else:
        raise wrong(setting, value, 'not a duration; write a number with a unit such as "2s", or a timedelta')
    if milliseconds < 0:
        raise wrong(setting, value, "a duration cannot be negative; use 0 or more")
    if milliseconds > MAX_DURATION_MS:
        raise wrong(setting, value, f"too long; use at most {MAX_DURATION_MS // 86_400_000}d")
    return milliseconds


def positive_duration_ms(value: Duration, setting: str) -> int:
    """Milliseconds of `value`, which may not be 0."""
    milliseconds = duration_ms(value, setting=setting)
    if milliseconds == 0:
        raise wrong(setting, value, "must be longer than nothing; use at least 1ms")
    return milliseconds


def size_bytes(value: Size, *, setting: str = "size") -> int:
    """Bytes of `value`; error messages name `setting`.

    A bare whole number is a number of bytes. Units are B, KB, MB, GB and TB in any case, each 1024 times the one
    before; a fraction of a byte is rounded up.
    """
    if isinstance(value, str):
        size = _quantity(value, setting, _BYTES, kind="size", example="64MB", bare_factor=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        raise wrong(setting, value, 'not a size; write a number with a unit such as "64MB", or a number of bytes')
    if size < 0:
        raise wrong(setting, value, "a size cannot be negative; use 0 or more")
    if size > MAX_SIZE_BYTES:
        raise wrong(setting, value, f"too large; use at most {MAX_SIZE_BYTES >> 40}TB")
    return size


def _quantity(
    text: str, setting: str, factors: dict[str, int], *, kind: str, example: str, bare_factor: int | None = None
) -> int:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise wrong(setting, text, f'not a {kind}; write a number of 0 or more with a unit, for example "{example}"')
    number, unit = Decimal(match["number"]), match["unit"].lower()
    if unit:
        factor = factors.get(unit)
        if factor is None:
            raise wrong(setting, text, f"unknown unit {match['unit']!r}; use one of {', '.join(factors)}")
    elif bare_factor is not None:
        factor = bare_factor
    elif number == 0:
        factor = 1
    else:
        raise wrong(setting, text, f'a bare number has no unit; add one, for example "{example}"')
    return math.ceil(number * factor)

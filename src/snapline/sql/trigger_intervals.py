"""Intervals of triggers as Spark writes them: "10 seconds", "interval 1 minute 30 seconds"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from snapline.errors import ConfigurationError

_MILLISECONDS: Final[Mapping[str, float]] = {
    "microsecond": 0.001,
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_PART: Final = r"([0-9]+(?:\.[0-9]+)?) *([a-z]+)"


def interval_ms(text: str) -> int:
    """The interval in milliseconds, rounded up. Raises `ConfigurationError` for anything else, and for months."""
    if not isinstance(text, str):
        raise ConfigurationError(f"trigger({text!r}): give the interval as text, for example '10 seconds'")
    body = re.sub(r"^interval\b", "", text.strip().lower()).strip()
    if re.fullmatch(rf"{_PART}(?: +{_PART})*", body):
        parts = [(float(number), _unit(unit)) for number, unit in re.findall(_PART, body)]
        if all(unit in _MILLISECONDS for _, unit in parts):
            return math.ceil(sum(number * _MILLISECONDS[unit] for number, unit in parts))
    raise ConfigurationError(
        f"trigger({text!r}): this is no interval; write numbers of {', '.join(f'{unit}s' for unit in _MILLISECONDS)}, "
        "for example '10 seconds'"
    )


def _unit(name: str) -> str:
    short = {"ms": "millisecond", "s": "second", "min": "minute", "h": "hour", "d": "day"}
    return short.get(name) or name.removesuffix("s")

"""Random values of each type, for the rows that hold no edge value."""

from __future__ import annotations

import datetime as dt
import math
import random
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_CHARACTERS = "abcxyzABZ019 .,;:-_/%\\'\"()[]{}<>\t\néßİıſΣςǆﬁЖ中\u0301\u200d\u00a0\u2028😀👩🏽\U00010400"
_UNCHANGED = frozenset(
    {
        *("csv", "url", "format", "zone", "any_zone", "time_pattern", "pattern", "odd_json", "json_value", "json_path"),
        *("interval_text", "base64", "charset", "any_unit", "unit", "day_name", "url_part"),
    }
)
"""Kinds of texts that are taken as they are, with their own odd ones among them."""

_FIRST_US, _LAST_US = -62_135_596_800_000_000 + 172_800_000_000, 253_402_300_799_999_999 - 172_800_000_000


def random_value(type: str, random: random.Random) -> Any:
    """A value of a type, or none for a type that has no random values."""
    if type in _INTEGER_BITS:
        return _integer(_INTEGER_BITS[type], random)
    if type in _ATOMS:
        return _ATOMS[type](random)
    if match := re.fullmatch(r"decimal\((\d+),(\d+)\)", type):
        return _decimal(int(match[1]), int(match[2]), random)
    if (match := re.fullmatch(r"array<([a-z]+)>", type)) and _is_known(match[1]):
        return [_or_null(match[1], random) for _ in range(random.randrange(6))]
    if (match := re.fullmatch(r"map<([a-z]+),([a-z]+)>", type)) and _is_known(match[1]) and _is_known(match[2]):
        keys = {repr(key): key for key in (random_value(match[1], random) for _ in range(random.randrange(4)))}
        return [(key, _or_null(match[2], random)) for key in keys.values() if key or match[1] == "string"]
    return None


def changed_text(text: str, random: random.Random) -> str:
    """The text with a character more, less, twice or another one."""
    place = random.randrange(len(text) + 1)
    kind = random.randrange(4)
    if kind == 0 or not text:
        return text[:place] + random.choice(_CHARACTERS) + text[place:]
    if kind == 1:
        return text[:place] + text[place + 1 :]
    if kind == 2:
        return text[:place] + text[max(place - 1, 0) :]
    return text[:place] + random.choice(text) + text[place + 1 :]


def filled(edges: Sequence[Any], kind: str, type: str, rows: int, random: random.Random) -> list[Any]:
    """A column: edge values and nulls, and random values in place of what would be there several times."""
    pool = [*edges, None]
    if len(pool) > rows:
        pool = [*random.sample(list(edges), rows - 1), None]
    while len(pool) < rows:
        pool.append(_further(edges, kind, type, random))
    random.shuffle(pool)
    return pool


def _further(edges: Sequence[Any], kind: str, type: str, random: random.Random) -> Any:
    chance = random.random()
    if kind != type:
        edge = random.choice(edges)
        return changed_text(edge, random) if type == "string" and kind not in _UNCHANGED and chance < 0.5 else edge
    value = random_value(type, random) if chance < 0.6 else None
    return value if value is not None else random.choice([*edges, None])


def _is_known(type: str) -> bool:
    return type in _INTEGER_BITS or type in _ATOMS


def _or_null(type: str, random: random.Random) -> Any:
    return None if random.random() < 0.15 else random_value(type, random)


def _integer(bits: int, random: random.Random) -> int:
    size = random.randrange(1, bits)
    return random.getrandbits(size) - (random.getrandbits(1) << size)


def _double(random: random.Random) -> float:
    kind = random.randrange(4)
    if kind == 0:
        value: float = struct.unpack("<d", random.randbytes(8))[0]
        return math.nan if math.isnan(value) else value
    if kind == 1:
        return float(_integer(54, random))
    if kind == 2:
        return round(random.uniform(-1000, 1000), random.randrange(5))
    return random.uniform(-1, 1) * 10.0 ** random.randrange(-12, 25)


def _float(random: random.Random) -> float:
    value = _double(random)
    if abs(value) > 3.4e38:
        return math.copysign(math.inf, value)
    narrowed: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return narrowed


def _text(random: random.Random) -> str:
    return "".join(random.choice(_CHARACTERS) for _ in range(random.randrange(9)))


def _decimal(precision: int, scale: int, random: random.Random) -> Decimal:
    digits = random.randrange(1, precision + 1)
    unscaled = random.randrange(10**digits) * random.choice((1, -1))
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _microseconds(random: random.Random) -> int:
    kind = random.randrange(3)
    if kind == 0:
        return random.randrange(_FIRST_US, _LAST_US)
    whole = random.randrange(0, 2_208_988_800)
    return whole * 1_000_000 + (random.randrange(1_000_000) if kind == 1 else 0)


_ATOMS: Mapping[str, Callable[[random.Random], Any]] = {
    "boolean": lambda random: random.random() < 0.5,
    "float": _float,
    "double": _double,
    "string": _text,
    "binary": lambda random: random.randbytes(random.randrange(6)),
    "date": lambda random: dt.date.fromordinal(random.randrange(1, 3_652_060)),
    "timestamp": _microseconds,
    "timestamp_ntz": _microseconds,
}

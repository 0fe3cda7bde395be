"""Timestamps written by a pattern, whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import (
    DAY_US,
    Integers,
    days_of_month,
    days_of_year,
    month_numbers,
    weekdays,
    years_of,
)
from snapline.sql.expressions.datetime_patterns import (
    ERAS,
    MONTHS,
    WEEKDAYS,
    Field,
    Item,
    Section,
    Text,
    has_era,
    pattern_items,
)
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.expressions.zone_offsets import Zone, fixed

Block: TypeAlias = npt.NDArray[np.uint8]
"""Texts of one length: a row of bytes for each."""

Piece: TypeAlias = Block | pa.Array


class Moments:
    """Times in a zone, and their fields, each computed when it is first needed."""

    def __init__(self, times: Integers, place: Zone, zone_name: str, has_era: bool) -> None:
        self.times = times
        self._has_era = has_era
        self.zone_name = zone_name
        self._place = place

    @cached_property
    def offsets(self) -> Integers:
        """Seconds from UTC to local time."""
        return self._place.offsets(self.times) // 1_000_000

    @cached_property
    def local(self) -> Integers:
        """Local times."""
        return self._place.local(self.times)

    @cached_property
    def days(self) -> Integers:
        """Local days."""
        return self.local // DAY_US

    @cached_property
    def years(self) -> Integers:
        """Local years; before the year 1 come 0 and -1."""
        return years_of(self.days)

    @property
    def written_years(self) -> Integers:
        """Years as they are written: counted from 1 before our era, too, if the era is written with them."""
        return np.where(self.years > 0, self.years, 1 - self.years) if self._has_era else self.years

    @cached_property
    def seconds(self) -> Integers:
        """Seconds of the local day."""
        return self.local % DAY_US // 1_000_000


_NUMBERS: dict[str, Callable[[Moments], Integers]] = {
    "M": lambda m: month_numbers(m.days),
    "L": lambda m: month_numbers(m.days),
    "Q": lambda m: (month_numbers(m.days) + 2) // 3,
    "q": lambda m: (month_numbers(m.days) + 2) // 3,
    "d": lambda m: days_of_month(m.days),
    "D": lambda m: days_of_year(m.days),
    "F": lambda m: (days_of_month(m.days) - 1) % 7 + 1,
    "E": lambda m: weekdays(m.days),
    "G": lambda m: (m.years <= 0).astype(np.int64),
    "H": lambda m: m.seconds // 3600,
    "h": lambda m: (m.seconds // 3600 + 11) % 12 + 1,
    "K": lambda m: m.seconds // 3600 % 12,
    "k": lambda m: (m.seconds // 3600 + 23) % 24 + 1,
    "m": lambda m: m.seconds // 60 % 60,
    "s": lambda m: m.seconds % 60,
    "a": lambda m: m.seconds // 43_200,
}

_SHORT_MONTHS = [name[:3] for name in MONTHS]
_SHORT_DAYS = [name[:3] for name in WEEKDAYS]
_QUARTERS: dict[int, Sequence[str]] = {
    3: ["Q1", "Q2", "Q3", "Q4"],
    4: [f"{number} quarter" for number in ("1st", "2nd", "3rd", "4th")],
}
_NAMES: dict[str, dict[int, Sequence[str]]] = {
    "M": {3: _SHORT_MONTHS, 4: MONTHS},
    "L": {3: _SHORT_MONTHS, 4: MONTHS},
    "E": {1: _SHORT_DAYS, 2: _SHORT_DAYS, 3: _SHORT_DAYS, 4: WEEKDAYS},
    "G": {1: list(ERAS), 2: list(ERAS), 3: list(ERAS), 4: list(ERAS.values())},
    "a": {1: ["AM", "PM"]},
    "Q": _QUARTERS,
    "q": _QUARTERS,
}
_NAMED_FROM = {"M": 1, "L": 1, "Q": 1, "q": 1}


class Formatter:
    """Writes times by a pattern. Raises `SparkError` for one that Spark refuses."""

    def __init__(self, pattern: str) -> None:
        items = pattern_items(pattern, parsing=False)
        self._items = tuple(_flat(items))
        self._has_era = has_era(items)
        self._groups = tuple(_groups(self._items))
        if Field("z", 4) in self._items:
            raise UnsupportedError(f"the letters zzzz are not supported, write z or VV: {pattern}")

    def texts(self, times: Integers, place: Zone, zone_name: str) -> pa.Array:
        """The texts of times in a zone."""
        moments = Moments(times, place, zone_name, self._has_era)
        pieces: list[Piece] = []
        for source, items in self._groups:
            pieces += self._pieces(source, items, moments)
        return _joined(pieces, len(times))

    def _pieces(self, source: str, items: Sequence[Field | Text], moments: Moments) -> Sequence[Piece]:
        """The texts of items that depend on one part of a time; from a table of all its values if that is short."""
        rows = len(moments.times)
        if source == "clock" and rows >= _CLOCK_ROWS:
            return [_rows_of(self._clock, moments.seconds)]
        if source == "date" and rows:
            first, last = int(moments.days.min()), int(moments.days.max())
            if last - first < rows // 4:
                days = Moments(np.arange(first, last + 1) * DAY_US, fixed(0), "UTC", self._has_era)
                table = _one([_piece(item, days) for item in items])
                return [_rows_of(table, moments.days - first)]
        return [_piece(item, moments) for item in items]

    @cached_property
    def _clock(self) -> Piece:
        """The texts of the items of the clock for each second of a day."""
        seconds = Moments(np.arange(86_400) * 1_000_000, fixed(0), "UTC", self._has_era)
        items = next(items for source, items in self._groups if source == "clock")
        return _one([_piece(item, seconds) for item in items])


def _flat(items: Iterable[Item]) -> Iterable[Field | Text]:
    """Optional sections are always written."""
    for item in items:
        if isinstance(item, Section):
            yield from _flat(item.items)
        else:
            yield item


def _groups(items: Sequence[Field | Text]) -> Iterable[tuple[str, Sequence[Field | Text]]]:
    """Neighbours that depend on the day, on the second of the day, or on something else; at most one of the clock."""
    group: list[Field | Text] = []
    source = ""
    has_clock = False
    for item in items:
        own = source if isinstance(item, Text) else _SOURCES.get(item.letter, "other")
        if own == "clock" and source != "clock" and has_clock:
            own = "other"
        has_clock |= own == "clock"
        if group and own != source and source:
            yield source, group
            group = []
        source = own
        group.append(item)
    if group:
        yield source or "other", group


_SOURCES = {**dict.fromkeys("yMLQqdDFEG", "date"), **dict.fromkeys("HhKkmsa", "clock")}
_CLOCK_ROWS = 8192
"""From this many rows on, a table of all seconds of a day is worth its making."""


def _one(pieces: Sequence[Piece]) -> Piece:
    """The pieces next to each other."""
    blocks = [piece for piece in pieces if isinstance(piece, np.ndarray)]
    if len(blocks) == len(pieces):
        return np.concatenate(blocks, axis=1)
    return _joined(pieces, len(pieces[0]))


def _rows_of(table: Piece, numbers: Integers) -> Piece:
    return np.asarray(table[numbers]) if isinstance(table, np.ndarray) else table.take(pa.array(numbers))


def _piece(item: Field | Text, moments: Moments) -> Piece:
    if isinstance(item, Text):
        return _constant(item.text, len(moments.times))
    letter, count = item.letter, item.count
    names = _NAMES.get(letter, {}).get(count)
    if names is not None:
        return _named(_NUMBERS[letter](moments) - _NAMED_FROM.get(letter, 0), names)
    if letter == "S":
        fraction = moments.local % 1_000_000
        return _digits(fraction * 10 ** max(count - 6, 0) // 10 ** max(6 - count, 0), count)
    if letter == "y":
        return _year(moments.written_years, count)
    if letter in _NUMBERS:
        return _number(_NUMBERS[letter](moments), count)
    if letter == "V":
        return _constant(moments.zone_name, len(moments.times))
    if letter == "z":
        return _distinct(moments.times // 900_000_000, lambda time: zone_text(time * 900, moments.zone_name))
    return _distinct(moments.offsets, lambda seconds: offset_text(letter, count, seconds))


def _constant(text: str, rows: int) -> Block:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (rows, len(text.encode())))


def _number(values: Integers, width: int) -> Piece:
    if width > 1 and (not len(values) or int(values.max()) < 10**width):
        return _digits(values, width)
    texts = pa.array(values).cast(pa.string())
    return pc.utf8_lpad(texts, width, "0") if width > 1 else texts


def _year(years: Integers, width: int) -> Piece:
    if width == 2:
        return _digits(np.abs(years) % 100, 2)
    if not len(years) or (int(years.min()) >= 0 and int(years.max()) < 10 ** max(width, 4)):
        return _number(years, width)
    plus = "+" if width > 3 else ""
    return _distinct(
        years, lambda year: f"{'-' if year < 0 else plus if year >= 10**width else ''}{abs(year):0{width}d}"
    )


def _digits(values: Integers, width: int) -> Block:
    if width > 4:
        head = _digits(values // 10_000, width - 4)
        return np.concatenate([head, _digits(values % 10_000, 4)], axis=1)
    return np.asarray(_digit_table(width)[values])


@cache
def _digit_table(width: int) -> Block:
    """The digits of all numbers of `width` digits."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return np.asarray(np.arange(10**width)[:, None] // powers % 10 + 48).astype(np.uint8)


def _named(numbers: Integers, names: Sequence[str]) -> Piece:
    if len({len(name) for name in names}) == 1:
        table = np.array([list(name.encode()) for name in names], np.uint8)
        return np.asarray(table[numbers])
    return pa.array(names).take(pa.array(numbers))


def _distinct(values: Integers, text: Callable[[int], str]) -> pa.Array:
    distinct, places = np.unique(values, return_inverse=True)
    return pa.array([text(int(value)) for value in distinct], pa.string()).take(pa.array(places))


def _joined(pieces: Sequence[Piece], rows: int) -> pa.Array:
    columns: list[pa.Array] = []
    blocks: list[Block] = []
    for piece in [*pieces, None]:
        if isinstance(piece, np.ndarray):
            blocks.append(piece)
            continue
        if blocks:
            columns.append(_texts(np.concatenate(blocks, axis=1)))
            blocks = []
        if piece is not None:
            columns.append(piece)
    if not columns:
        return pa.array([""] * rows, pa.string())
    return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, "")


def _texts(block: Block) -> pa.Array:
    rows, width = block.shape
    offsets = pa.py_buffer(np.arange(0, (rows + 1) * width, width, dtype=np.int32)[: rows + 1].tobytes())
    if not width:
        return pa.array([""] * rows, pa.string())
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets, pa.py_buffer(block.tobytes())])


def offset_text(letter: str, count: int, seconds: int) -> str:
    """An offset from UTC as the letters X, x, Z and O write it."""
    sign, size = "-" if seconds < 0 else "+", abs(seconds)
    hours, minutes, rest = size // 3600, size // 60 % 60, size % 60
    if letter == "O" or (letter == "Z" and count == 4):
        if not seconds:
            return "GMT"
        if letter == "O" and count == 1:
            tail = f":{minutes:02d}" if minutes or rest else ""
            return f"GMT{sign}{hours}{tail}" + (f":{rest:02d}" if rest else "")
        return f"GMT{sign}{hours:02d}:{minutes:02d}" + (f":{rest:02d}" if rest else "")
    if not seconds and (letter == "X" or (letter == "Z" and count == 5)):
        return "Z"
    colon = ":" if (letter in "Xx" and count in (3, 5)) or count == 5 else ""
    with_seconds = rest and count in (4, 5)
    if letter in "Xx" and count == 1:
        return f"{sign}{hours:02d}" + (f"{minutes:02d}" if minutes else "")
    if not hours and not minutes and not with_seconds:
        sign = "+"
    return f"{sign}{hours:02d}{colon}{minutes:02d}" + (f"{colon}{rest:02d}" if with_seconds else "")


_FIRST_S, _LAST_S = -62_000_000_000, 253_000_000_000
"""Times that Python has dates for: before the first one no clock changed, and after the last one all comes again."""
_CYCLE_S = 146_097 * 86_400


def zone_text(seconds: int, name: str) -> str:
    """The name of a time zone at a time: `EST`. Raises `UnsupportedError` for zones whose names only Java has."""
    if name[:1] in "+-" or name == "Z":
        return name
    region = ZoneInfo(name)
    if seconds > _LAST_S:
        seconds = _LAST_S - _CYCLE_S + (seconds - _LAST_S) % _CYCLE_S
    moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(seconds, _FIRST_S))).astimezone(region)
    # Java knows one name for summer and one for winter, whatever the clocks did in former times.
    today = (datetime(2024, month, 1, tzinfo=region) for month in (1, 7))
    short = next((each.tzname() for each in today if bool(each.dst()) == bool(moment.dst())), moment.tzname())
    if not short or short[:1] in "+-":
        raise UnsupportedError(f"the pattern letter z is not supported for {name}, write VV")
    return short

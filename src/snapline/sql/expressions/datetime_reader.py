"""Texts read by a pattern, whole columns at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.sql.expressions.calendar_days import (
    DAY_US,
    Integers,
    days_from,
    days_of_month,
    days_of_year,
    first_days,
    month_numbers,
    years_of,
)
from snapline.sql.expressions.datetime_patterns import ERAS, MONTHS, Field, Item, Section, Text, has_era, pattern_items
from snapline.sql.expressions.datetime_strings import text_zone
from snapline.sql.expressions.registry import SparkError, UnsupportedError
from snapline.sql.expressions.values import Bools
from snapline.sql.expressions.zone_offsets import Zone, fixed

_RANGES = {
    "y": (-(10**9), 10**9), "M": (1, 12), "L": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 23), "h": (1, 12),
    "K": (0, 11), "k": (1, 24), "m": (0, 59), "s": (0, 59), "S": (0, 999_999),
}  # fmt: skip

_OFFSETS = {
    ("X", 1): r"[+-]\d{2}(?:\d{2})?|Z",
    ("X", 2): r"[+-]\d{4}|Z",
    ("X", 3): r"[+-]\d{2}:\d{2}|Z",
    ("X", 4): r"[+-]\d{4}(?:\d{2})?|Z",
    ("X", 5): r"[+-]\d{2}:\d{2}(?::\d{2})?|Z",
    ("x", 1): r"[+-]\d{2}(?:\d{2})?",
    ("x", 2): r"[+-]\d{4}",
    ("x", 3): r"[+-]\d{2}:\d{2}",
    ("x", 4): r"[+-]\d{4}(?:\d{2})?",
    ("x", 5): r"[+-]\d{2}:\d{2}(?::\d{2})?",
    **dict.fromkeys((("Z", 1), ("Z", 2), ("Z", 3)), r"[+-]\d{4}"),
    ("Z", 4): r"GMT(?:[+-]\d{2}:\d{2}(?::\d{2})?)?",
    ("Z", 5): r"[+-]\d{2}:\d{2}(?::\d{2})?|Z",
    ("O", 1): r"GMT(?:[+-]\d{1,2}(?::\d{2}(?::\d{2})?)?)?",
    ("O", 4): r"GMT(?:[+-]\d{2}:\d{2}(?::\d{2})?)?",
    ("V", 2): r"[A-Za-z][A-Za-z0-9~/._+\-]*(?::\d{2})*|[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?",
}
_ZONE_NAMES = {
    "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "MST": "America/Denver", "MDT": "America/Denver",
    "CST": "America/Chicago", "CDT": "America/Chicago", "EST": "America/New_York", "EDT": "America/New_York",
    "CET": "Europe/Paris", "CEST": "Europe/Paris", "BST": "Europe/London", "JST": "Asia/Tokyo",
    "IST": "Europe/Dublin",
}  # fmt: skip
_ZONE_LETTERS = "XxZOVz"
_FARTHEST_YEAR = 290_000
"""Timestamps of 64 bits end soon after it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: local times, which rows are right, and the zone of each row by its place in `zones`, or -1."""

    local: Integers
    right: Bools
    zone_numbers: Integers
    zones: Sequence[Zone]

    def times(self, session: Zone) -> Integers:
        """The times, those without a zone in that of the session."""
        result = session.utc(self.local)
        for number, place in enumerate(self.zones):
            rows = self.zone_numbers == number
            result[rows] = place.utc(self.local[rows])
        return result


class Reader:
    """Reads texts by a pattern. Raises `SparkError` for one that Spark refuses."""

    def __init__(self, pattern: str) -> None:
        items = pattern_items(pattern, parsing=True)
        self._fields: list[Field] = []
        self._has_era = has_era(items)
        self._layout = _Layout.of(items)
        if "zzzz" in pattern:
            raise UnsupportedError(f"the letters zzzz are not supported, write z or VV: {pattern}")
        self._pattern = r"\A(?i)" + "".join(self._expression(items)) + r"\z"

    def read(self, texts: pa.Array) -> Reading:
        """What the texts say. No text may be null."""
        read = self._layout.read(texts) if self._layout else None
        if read is not None:
            return read
        if not self._fields:
            right = np.asarray(pc.match_substring_regex(texts, self._pattern).to_numpy(zero_copy_only=False))
            columns: list[pa.Array] = []
        else:
            found = pc.extract_regex(texts, self._pattern)
            right = ~np.asarray(found.is_null().to_numpy(zero_copy_only=False))
            columns = [pc.fill_null(column, "") for column in found.flatten()]
        return _Resolution(len(texts), right, self._fields, columns).reading(self._has_era)

    def _expression(self, items: Sequence[Item]) -> Iterator[str]:
        for item in items:
            if isinstance(item, Text):
                yield re.escape(item.text)
            elif isinstance(item, Section):
                yield f"(?:{''.join(self._expression(item.items))})?"
            else:
                self._fields.append(item)
                yield f"(?P<f{len(self._fields) - 1}>{_field_expression(item)})"


@dataclass(frozen=True, slots=True)
class _Layout:
    """The places of digits and of other characters in texts that all have one length: most of them are like that."""

    width: int
    fields: tuple[tuple[Field, int], ...]
    others: tuple[tuple[int, int], ...]

    @staticmethod
    def of(items: Sequence[Item]) -> _Layout | None:
        """The layout of a pattern, or None if its texts differ in length."""
        fields: list[tuple[Field, int]] = []
        others: list[tuple[int, int]] = []
        width = 0
        for item in items:
            if isinstance(item, Text) and item.text.isascii() and not item.text.isalpha():
                others += [(width + place, ord(character)) for place, character in enumerate(item.text)]
                width += len(item.text)
            elif isinstance(item, Field) and (item.letter, item.count) in _FIXED:
                fields.append((item, width))
                width += item.count
            else:
                return None
        letters = [field.letter for field, _ in fields]
        return _Layout(width, tuple(fields), tuple(others)) if len(set(letters)) == len(letters) else None

    def read(self, texts: pa.Array) -> Reading | None:
        """What the texts say, or None if one of them does not fit."""
        rows = len(texts)
        offsets = np.frombuffer(texts.buffers()[1], np.int32, rows + 1, texts.offset * 4)
        if not rows or (np.diff(offsets) != self.width).any():
            return None
        characters = np.frombuffer(texts.buffers()[2], np.uint8, rows * self.width, int(offsets[0]))
        table = characters.reshape(rows, self.width)
        if any((table[:, place] != code).any() for place, code in self.others):
            return None
        numbers: dict[str, Integers] = {}
        for field, place in self.fields:
            digits = table[:, place : place + field.count].astype(np.int64) - 48
            if ((digits < 0) | (digits > 9)).any():
                return None
            numbers[field.letter] = digits @ 10 ** np.arange(field.count - 1, -1, -1)
        return _Resolution.of_numbers(rows, numbers).reading(has_era=False)


_FIXED = {("y", 4), *((letter, 2) for letter in "MdHms")}


def _field_expression(field: Field) -> str:
    letter, count = field.letter, field.count
    if letter in "ML" and count > 2:
        return "|".join(name if count == 4 else name[:3] for name in MONTHS)
    if letter == "G":
        return "|".join(ERAS.values() if count == 4 else ERAS)
    if letter == "a":
        return "AM|PM"
    if letter == "z":
        return "|".join(_ZONE_NAMES) + "|" + _OFFSETS["V", 2]
    if letter in _ZONE_LETTERS:
        return _OFFSETS[letter, count]
    if letter == "S":
        return rf"\d{{1,{count}}}"
    if letter == "y" and count >= 4:
        return rf"-?\d{{{count}}}|[+-]\d{{{count + 1},9}}"
    if letter == "D" and count == 2:
        return r"\d{2,3}"
    if letter == "y" and count == 3:
        return r"-?\d{3,9}"
    if letter == "y" and count == 1:
        return r"-?\d{1,9}"
    return r"\d{1,9}" if count == 1 else rf"\d{{{count}}}"


class _Resolution:
    """Fields of all rows, checked against each other and put together."""

    def __init__(self, rows: int, right: Bools, fields: Sequence[Field], columns: Sequence[pa.Array]) -> None:
        self._rows = rows
        self._right = right
        self._numbers: dict[str, tuple[Integers, Bools]] = {}
        self._zone_numbers = np.full(rows, -1)
        self._zones: list[Zone] = []
        for field, column in zip(fields, columns, strict=True):
            if field.letter in _ZONE_LETTERS:
                self._add_zones(field, column)
            else:
                self._add(field, column)

    @staticmethod
    def of_numbers(rows: int, numbers: Mapping[str, Integers]) -> _Resolution:
        """The resolution of fields that all rows have."""
        result = _Resolution(rows, np.ones(rows, np.bool_), (), ())
        for letter, values in numbers.items():
            low, high = _RANGES[letter]
            result._right &= (values >= low) & (values <= high)
            result._numbers[letter] = (values, np.ones(rows, np.bool_))
        return result

    def reading(self, has_era: bool) -> Reading:
        local = self._days(has_era) * DAY_US + self._seconds() * 1_000_000 + self._get("S", 0)[0]
        return Reading(local, self._right, self._zone_numbers, self._zones)

    def _add(self, field: Field, texts: pa.Array) -> None:
        values, there = _values(field, texts)
        low, high = _RANGES.get(field.letter, (0, 1))
        self._right &= ~there | ((values >= low) & (values <= high))
        letter = "M" if field.letter == "L" else field.letter
        if letter in self._numbers:
            known, known_there = self._numbers[letter]
            self._right &= ~(there & known_there) | (values == known)
            values, there = np.where(known_there, known, values), there | known_there
        self._numbers[letter] = (values, there)

    def _add_zones(self, field: Field, texts: pa.Array) -> None:
        encoded = texts.dictionary_encode()
        numbers = []
        for text in encoded.dictionary.to_pylist():
            place = _named_zone(text) if text else None
            if place is None and field.letter == "z" and re.fullmatch("[A-Z]{3,5}", text):
                raise UnsupportedError(f"the name {text} of a time zone is not known here, write VV instead of z")
            if place is not None:
                self._zones.append(place)
            numbers.append(-1 if not text else -2 if place is None else len(self._zones) - 1)
        found = np.array(numbers, np.int64)[np.asarray(encoded.indices)]
        self._right &= found != -2
        self._zone_numbers = np.where(found >= 0, found, self._zone_numbers)

    def _get(self, letter: str, default: int) -> tuple[Integers, Bools]:
        missing = (np.full(self._rows, default), np.zeros(self._rows, np.bool_))
        values, there = self._numbers.get(letter, missing)
        return np.where(there & self._right, values, default), there

    def _days(self, has_era: bool) -> Integers:
        year, month, day = self._get("y", 1970)[0], self._get("M", 1)[0], self._get("d", 1)[0]
        if has_era:
            self._right &= year > 0
            year = np.where(self._get("G", 0)[0] == 1, 1 - year, year)
        if (np.abs(year[self._right]) > _FARTHEST_YEAR).any():
            raise SparkError("ArithmeticException", "long overflow")
        days, exist = days_from(year, month, day)
        self._right &= exist
        number, there = self._get("D", 1)
        if there.any():
            by_number = first_days((year - 1970) * 12) + number - 1
            self._right &= ~there | (days_of_year(by_number) == number) & (years_of(by_number) == year)
            for known, has_known, actual in (
                (month, self._get("M", 1)[1], month_numbers(by_number)),
                (day, self._get("d", 1)[1], days_of_month(by_number)),
            ):
                self._right &= ~(there & has_known) | (known == actual)
            days = np.where(there, by_number, days)
        return days

    def _seconds(self) -> Integers:
        hour, has_hour = self._get("H", 0)
        seconds = self._get("m", 0)[0] * 60 + self._get("s", 0)[0]
        if not self._numbers.keys() & {"k", "h", "K", "a"}:
            return hour * 3600 + seconds
        for letter, in_day in (("k", 24), ("h", 12), ("K", 12)):
            value, there = self._get(letter, 0)
            other = value % in_day
            half, has_half = self._get("a", 0)
            if in_day == 12:
                other = other + 12 * np.where(has_half, half, 0)
            self._right &= ~(has_hour & there) | (hour == other)
            hour, has_hour = np.where(there & ~has_hour, other, hour), has_hour | there
        half, has_half = self._get("a", 0)
        self._right &= ~(has_half & has_hour) | (hour // 12 == half)
        hour = np.where(has_half & ~has_hour, 12 * half, hour)
        return hour * 3600 + seconds


def _values(field: Field, texts: pa.Array) -> tuple[Integers, Bools]:
    there = np.asarray(pc.not_equal(texts, "").to_numpy(zero_copy_only=False))
    letter, count = field.letter, field.count
    if letter in "ML" and count > 2:
        return _indices([name if count == 4 else name[:3] for name in MONTHS], texts) + 1, there
    if letter == "G":
        return _indices(list(ERAS.values() if count == 4 else ERAS), texts), there
    if letter == "a":
        return _indices(["AM", "PM"], texts), there
    if letter == "S":
        texts = pc.utf8_slice_codeunits(pc.utf8_rpad(texts, 9, "0"), 0, 6)
    numbers = np.asarray(pc.if_else(pa.array(there), pc.utf8_ltrim(texts, "+"), "0").cast(pa.int64()))
    return (numbers + 2000 if letter == "y" and count == 2 else numbers), there


def _indices(names: Sequence[str], texts: pa.Array) -> Integers:
    lowered = pa.array([name.lower() for name in names])
    return np.asarray(pc.index_in(pc.ascii_lower(texts), lowered).fill_null(0)).astype(np.int64)


def _named_zone(text: str) -> Zone | None:
    if text in ("z", "Z"):
        return fixed(0)
    return text_zone(_ZONE_NAMES.get(text.upper(), text)) or _offset_zone(text)


def _offset_zone(text: str) -> Zone | None:
    """The zone of an offset without a colon."""
    match = re.fullmatch(r"([+-])(\d{2})(\d{2})?(\d{2})?", text)
    if match is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    size = hours * 3600 + minutes * 60 + seconds
    return fixed(-size if match[1] == "-" else size) if size <= 18 * 3600 and minutes < 60 and seconds < 60 else None

"""Windows and triggers as users write them: which rows belong together, and when to emit results."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import ClassVar, TypeAlias

import pyarrow as pa

from snapline.config.setting_checks import Settings, count
from snapline.config.units import Duration, duration_ms, positive_duration_ms

_log = logging.getLogger(__name__)


def bounds_type(time: pa.DataType) -> pa.DataType:
    """The type of window bounds for a time column of this type."""
    if not pa.types.is_timestamp(time):
        return pa.int64()
    return pa.timestamp("ms", tz=time.tz) if time.unit == "s" else time


def duration_text(milliseconds: int) -> str:
    """A duration as users write it, in the largest unit that divides it."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    unit, length = next(((unit, length) for unit, length in units if milliseconds % length == 0), ("ms", 1))
    return repr(f"{milliseconds // length}{unit}")


class _WindowSettings(Settings):
    """Base of windows and triggers, with a `repr` that looks as the user wrote it.

    A duration field is named as its argument, with `_ms` appended. The first argument is positional.
    """

    __slots__ = ()

    _FIRST_IS_POSITIONAL: ClassVar[bool] = True

    def __repr__(self) -> str:
        parts: list[str] = []
        for index, field in enumerate(fields(self)):  # type: ignore[arg-type]  # every subclass is a dataclass
            value, name = getattr(self, field.name), field.name.removesuffix("_ms")
            if not value:  # a default: no offset, no early results, no purging
                continue
            text = duration_text(value) if field.name.endswith("_ms") else repr(value)
            parts.append(text if index == 0 and self._FIRST_IS_POSITIONAL else f"{name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tumbling(_WindowSettings):
    """Adjacent windows of one size, counted from 1970, shifted by `offset`.

    With `processing_time` a row belongs to the window in which it is processed, and no watermarks are needed.
    """

    size_ms: int
    offset_ms: int
    processing_time: bool

    def __init__(self, size: Duration, offset: Duration = 0, *, processing_time: bool = False) -> None:
        self._fill(
            size_ms=positive_duration_ms(size, "Tumbling: size"),
            offset_ms=duration_ms(offset, setting="Tumbling: offset"),
            processing_time=processing_time,
        )

    @property
    def every_ms(self) -> int:
        return self.size_ms


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sliding(_WindowSettings):
    """Windows of one size, of which one starts every `every`, so that a row may be in several.

    With `every` longer than `size` there are gaps, and rows in a gap are dropped.
    """

    size_ms: int
    every_ms: int
    offset_ms: int
    processing_time: bool

    def __init__(self, size: Duration, *, every: Duration, offset: Duration = 0, processing_time: bool = False) -> None:
        self._fill(
            size_ms=positive_duration_ms(size, "Sliding: size"),
            every_ms=positive_duration_ms(every, "Sliding: every"),
            offset_ms=duration_ms(offset, setting="Sliding: offset"),
            processing_time=processing_time,
        )
        if self.every_ms > self.size_ms:
            _log.warning("%r leaves gaps between windows: rows in them are dropped", self)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Session(_WindowSettings):
    """Rows of a key with no more than `gap` between one and the next; the window ends `gap` after the last."""

    gap_ms: int
    processing_time: bool

    def __init__(self, gap: Duration, *, processing_time: bool = False) -> None:
        self._fill(gap_ms=positive_duration_ms(gap, "Session: gap"), processing_time=processing_time)


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """All rows of a key in one window that never ends: it needs a trigger. Results have no window columns."""


@dataclass(frozen=True, slots=True)
class GivenWindow:
    """The window that rows already have: aggregates results of windows once more, for the same window."""

    start: str = "window_start"
    end: str = "window_end"


WindowAssigner: TypeAlias = Tumbling | Sliding | Session | GlobalWindow | GivenWindow


@dataclass(frozen=True, slots=True, init=False, repr=False)
class WhenComplete(_WindowSettings):
    """Emit results once the watermark says that a window is complete, and optionally early ones.

    early_rows: also whenever a key has this many more rows in a window.
    early_every: also at this interval of processing time, for windows with new rows, and before every checkpoint.
    """

    _FIRST_IS_POSITIONAL: ClassVar[bool] = False

    early_rows: int | None
    early_every_ms: int | None

    def __init__(self, *, early_rows: int | None = None, early_every: Duration | None = None) -> None:
        early_every_ms = None if early_every is None else positive_duration_ms(early_every, "WhenComplete: early_every")
        self._fill(
            early_rows=None if early_rows is None else count(early_rows, "WhenComplete: early_rows", least=1),
            early_every_ms=early_every_ms,
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class EveryRows(_WindowSettings):
    """Emit results after every `n` rows of a key in a window, and only then; `purge` clears the window each time."""

    n: int
    purge: bool

    def __init__(self, n: int, *, purge: bool = False) -> None:
        self._fill(n=count(n, "EveryRows: n", least=1), purge=purge)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class EventTimeInterval(_WindowSettings):
    """Emit results whenever the watermark passes a multiple of `every`, and once the window is complete."""

    every_ms: int

    def __init__(self, every: Duration) -> None:
        self._fill(every_ms=positive_duration_ms(every, "EventTimeInterval: every"))


Trigger: TypeAlias = WhenComplete | EveryRows | EventTimeInterval

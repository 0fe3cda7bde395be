"""Windows and triggers, as users write them: which rows belong together, and when their results come."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeAlias

from snapline.config import MAX_COUNT, Duration, duration_ms
from snapline.errors import ConfigurationError


def positive_ms(value: Duration, setting: str) -> int:
    """Milliseconds of a duration that cannot be 0; `setting` is the name an error message uses."""
    milliseconds = duration_ms(value, setting=setting)
    if not milliseconds:
        raise ConfigurationError(f"{setting}={value!r} is 0; use a longer duration, for example '10s'")
    return milliseconds


def duration_text(milliseconds: int) -> str:
    """A duration as users write it, in the greatest unit of which it is a whole number."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
    unit, length = next(((unit, length) for unit, length in units if milliseconds % length == 0), ("ms", 1))
    return repr(f"{milliseconds // length}{unit}")


class _Settings:
    """Lets a constructor that takes durations fill a frozen dataclass, and shows it as it was written.

    A field that is a duration has `_ms` behind the name of the argument; of those `_PLAIN` the name is left out.
    """

    __slots__ = ()

    _PLAIN: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        parts: list[str] = []
        for field in fields(self):  # type: ignore[arg-type]  # a dataclass in every class that has this one as a base
            value, name = getattr(self, field.name), field.name.removesuffix("_ms")
            if not value:  # what is left out when it is written: no offset, no early results, no purging
                continue
            text = duration_text(value) if field.name.endswith("_ms") else repr(value)
            parts.append(text if name in self._PLAIN else f"{name}={text}")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _fill(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Tumbling(_Settings):
    """Windows of one size, one behind the other, from 1970 on or as much later as `offset` says.

    With `processing_time` a row is in the window in which it is processed, and no watermarks are needed.
    """

    _PLAIN: ClassVar[tuple[str, ...]] = ("size",)

    size_ms: int
    offset_ms: int
    processing_time: bool

    def __init__(self, size: Duration, offset: Duration = 0, *, processing_time: bool = False) -> None:
        self._fill(
            size_ms=positive_ms(size, "Tumbling: size"),
            offset_ms=duration_ms(offset, setting="Tumbling: offset"),
            processing_time=processing_time,
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Sliding(_Settings):
    """Windows of one size of which one begins every so often, so that a row may be in several, or in none."""

    _PLAIN: ClassVar[tuple[str, ...]] = ("size",)

    size_ms: int
    every_ms: int
    offset_ms: int
    processing_time: bool

    def __init__(self, size: Duration, *, every: Duration, offset: Duration = 0, processing_time: bool = False) -> None:
        self._fill(
            size_ms=positive_ms(size, "Sliding: size"),
            every_ms=positive_ms(every, "Sliding: every"),
            offset_ms=duration_ms(offset, setting="Sliding: offset"),
            processing_time=processing_time,
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Session(_Settings):
    """Rows of a key of which none is more than `gap` apart from the next one; the window ends `gap` after the last."""

    _PLAIN: ClassVar[tuple[str, ...]] = ("gap",)

    gap_ms: int
    processing_time: bool

    def __init__(self, gap: Duration, *, processing_time: bool = False) -> None:
        self._fill(gap_ms=positive_ms(gap, "Session: gap"), processing_time=processing_time)


@dataclass(frozen=True, slots=True)
class GlobalWindow:
    """All rows of a key in one window that never ends: it needs a trigger. Results have no window columns."""


@dataclass(frozen=True, slots=True)
class GivenWindow:
    """The window that rows have already: results of windows, to be aggregated once more for the same window."""

    start: str = "window_start"
    end: str = "window_end"


WindowAssigner: TypeAlias = "Tumbling | Sliding | Session | GlobalWindow | GivenWindow"


@dataclass(frozen=True, slots=True, init=False, repr=False)
class WhenComplete(_Settings):
    """Results come once the watermark says that a window is complete, and early ones if wanted.

    early_rows: also after each so many rows of a key in a window.
    early_every: also at this interval of processing time, for those with new rows, and ahead of every checkpoint.
    """

    early_rows: int | None
    early_every_ms: int | None

    def __init__(self, *, early_rows: int | None = None, early_every: Duration | None = None) -> None:
        self._fill(
            early_rows=None if early_rows is None else _rows(early_rows, "WhenComplete: early_rows"),
            early_every_ms=None if early_every is None else positive_ms(early_every, "WhenComplete: early_every"),
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class EveryRows(_Settings):
    """Results come after each `n` rows of a key in a window, and only then; with `purge` it begins anew each time."""

    _PLAIN: ClassVar[tuple[str, ...]] = ("n",)

    n: int
    purge: bool

    def __init__(self, n: int, *, purge: bool = False) -> None:
        self._fill(n=_rows(n, "EveryRows: n"), purge=purge)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class EventTimeInterval(_Settings):
    """Results come each time the watermark has passed a multiple of `every`, and once the window is complete."""

    _PLAIN: ClassVar[tuple[str, ...]] = ("every",)

    every_ms: int

    def __init__(self, every: Duration) -> None:
        self._fill(every_ms=positive_ms(every, "EventTimeInterval: every"))


Trigger: TypeAlias = "WhenComplete | EveryRows | EventTimeInterval"


def _rows(value: Any, setting: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_COUNT:
        raise ConfigurationError(f"{setting}={value!r}; use a whole number of rows from 1 to {MAX_COUNT}")
    return value

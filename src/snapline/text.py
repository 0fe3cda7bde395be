"""Text helpers for messages: values, rows and errors in few words, or without the values of private data."""

from __future__ import annotations

import datetime as dt
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from snapline.errors import SnaplineError

_MAX_REPR_CHARACTERS = 200
_MAX_ROW_CHARACTERS = 400
_MAX_VALUE_CHARACTERS = 80
_MAX_ERROR_CHARACTERS = 500

_shows_values: ContextVar[bool] = ContextVar("shows_values", default=True)


def show_values(shown: bool) -> None:
    """Decide whether messages made from now on in this context, usually a thread, may show values of rows."""
    _shows_values.set(shown)


def shortened(value: object) -> str:
    """The `repr` of a value, cut to a length that fits into a message; only its type if values are hidden."""
    if not _shows_values.get():
        return f"<{type(value).__name__}>"
    return _cut(repr(value), _MAX_REPR_CHARACTERS)


def row_text(row: Mapping[str, Any]) -> str:
    """A row with long values cut, so that as many columns as possible fit into a message."""
    parts = (f"{name!r}: {_value_text(value)}" for name, value in row.items())
    return _cut(f"{{{', '.join(parts)}}}", _MAX_ROW_CHARACTERS)


def for_row(row: Mapping[str, Any] | None) -> str:
    """The end of a message that shows the row it is about; empty if there is none, or if values are hidden."""
    return "" if row is None or not _shows_values.get() else f", for the row {row_text(row)}"


def for_line(line: str) -> str:
    """The same for a line of text."""
    return f", for the line {_value_text(line)}" if _shows_values.get() else ""


def for_batch(count: int, first: Mapping[str, Any] | None) -> str:
    """The same for the rows of a batch, of which only the first is shown."""
    begins = "" if first is None or not _shows_values.get() else f" that begins with {row_text(first)}"
    return f", in a batch of {count} row{'' if count == 1 else 's'}{begins}"


def error_text(error: BaseException) -> str:
    """Type and first line of an exception. If values are hidden, where it was raised instead of what it says."""
    kind = type(error).__name__
    if not _shows_values.get() and not isinstance(error, SnaplineError):
        return f"{kind}{_place(error)}"
    lines = str(error).strip().splitlines()
    return f"{kind}: {_cut(lines[0], _MAX_ERROR_CHARACTERS)}" if lines else kind


def explanation(error: BaseException) -> str:
    """What an exception says; only its type if values are hidden, since it may quote them."""
    if not _shows_values.get() and not isinstance(error, SnaplineError):
        return type(error).__name__
    return str(error)


def trace_text(error: BaseException) -> str:
    """The traceback of an exception and its causes; if values are hidden, without what foreign exceptions say."""
    if _shows_values.get():
        return "".join(traceback.format_exception(error))
    chain: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in chain:
        chain.append(found)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    parts = [
        f"Traceback (most recent call last):\n{''.join(traceback.format_tb(item.__traceback__))}{error_text(item)}\n"
        for item in reversed(chain)
    ]
    return "\nwhich led to:\n\n".join(parts)


def is_milestone(before: int, now: int) -> bool:
    """Whether a growing count has passed 1, 10, 100 and so on: how often to report it."""
    return now > before and (before == 0 or len(str(now)) > len(str(before)))


def size_text(size_bytes: int) -> str:
    """A size with the unit that suits it, up to TB."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.95 or unit == "TB":
            break
    return f"{amount:.1f} {unit}"


def duration_text(duration_ms: float) -> str:
    """A duration with the unit that suits it, from ms to days."""
    if duration_ms < 1000:
        return f"{duration_ms:.0f} ms"
    for unit, unit_ms, limit in (("s", 1000, 120), ("min", 60_000, 120), ("h", 3_600_000, 48)):
        if duration_ms / unit_ms < limit:
            return f"{duration_ms / unit_ms:.0f} {unit}"
    return f"{duration_ms / 86_400_000:,.0f} d"


def fine_duration_text(duration_ms: float) -> str:
    """The same, with one decimal below 10 s."""
    return f"{duration_ms / 1000:.1f} s" if 1000 <= duration_ms < 9950 else duration_text(duration_ms)


def time_text(timestamp_ms: int, timespec: str = "seconds") -> str:
    """A time in UTC in ISO 8601; the bare number if the calendar does not have it."""
    try:
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _value_text(value: Any) -> str:
    if isinstance(value, str | bytes) and len(value) > _MAX_VALUE_CHARACTERS:
        value = value[:_MAX_VALUE_CHARACTERS]  # before `repr`, which would copy all of it
        return f"{value!r}..."
    return _cut(str(value) if isinstance(value, dt.date | dt.time) else repr(value), _MAX_VALUE_CHARACTERS)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" at {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""

"""Rows that cannot be read or processed: what to do with them, and how they are passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from snapline.errors import ConfigurationError, SnaplineError, TransientError, UserCodeError

Made = TypeVar("Made")

DEAD_LETTERS = "dead_letters"
"""The side output they go to."""

DEAD_LETTER_SCHEMA = pa.schema(
    [
        pa.field("operator", pa.string(), nullable=False),
        pa.field("error_type", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("row", pa.string()),
        pa.field("time", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
    ]
)
"""The uid of the operator, the exception, the row as JSON or a line as it is in its file, and when it failed.

`file` and `line` say where a source read it; `row` and `line` are null if a whole file cannot be read.
"""


class OnError(Enum):
    """What to do with a row that cannot be read or processed."""

    FAIL = "fail"
    DEAD_LETTER = "dead_letter"
    DROP = "drop"


def checked_on_error(value: Any, call: str) -> OnError:
    """The setting as an enum; `ConfigurationError` if it is something else. `call` is what the user called."""
    try:
        return OnError(value)
    except ValueError:
        known = ", ".join(repr(item.value) for item in OnError)
        raise ConfigurationError(f"{call}: on_error={value!r}; use one of {known}") from None


def salvaged(
    attempt: Callable[[int, int], Made], start: int, end: int, fail: Callable[[int, Exception], None]
) -> Iterator[Made]:
    """What `attempt` returns for the range from `start` to `end`, or else for parts of it, in order.

    Where it fails the range is halved, and `fail` is called for each single item it fails for.
    """
    failure: Exception | None = None
    try:
        made = attempt(start, end)
    except Exception as error:
        if not is_about_row(error) or start == end:
            raise
        failure = error
    # Outside of the `except` block, or each error would drag along those of the larger ranges.
    if failure is None:
        yield made
    elif end - start == 1:
        fail(start, failure)
    else:
        middle = (start + end) // 2
        yield from salvaged(attempt, start, middle, fail)
        yield from salvaged(attempt, middle, end, fail)


def is_about_row(error: Exception) -> bool:
    """Whether an exception can be blamed on a row: storage, settings, memory and `TransientError` are not its fault."""
    if isinstance(error, UserCodeError):
        return not isinstance(error, TransientError)
    return not isinstance(error, SnaplineError | MemoryError)


def row_json(row: Mapping[str, Any]) -> str:
    """A row as JSON: times in ISO 8601, bytes in base 64, anything unknown as its `repr`."""
    try:
        return msgspec.json.encode(row, enc_hook=repr).decode()
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode({str(name): repr(value) for name, value in row.items()}).decode()

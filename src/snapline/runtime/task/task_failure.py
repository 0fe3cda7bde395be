"""The failure of a task as users read it: one line that says what happened, and the traceback of their own code."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from snapline.errors import UserCodeError
from snapline.graph.shipment import HOW_TO_SHIP
from snapline.text import error_text, trace_text

_PACKAGE = str(Path(__file__).parents[2])


def one_line(error: BaseException) -> str:
    """The kind and the first line of an error; with advice if it is a module that is missing."""
    message = error_text(error)
    return f"{message}; {HOW_TO_SHIP}" if isinstance(first_error(error), ModuleNotFoundError) else message


def trace(error: BaseException) -> str:
    """The traceback of the user's exception, from the first frame of the user's code; else of the error itself."""
    first = first_error(error)
    whole = first.__traceback__
    if first is error or whole is None:
        return trace_text(error)
    try:
        return trace_text(first.with_traceback(_from_user_code(whole)))
    finally:
        first.__traceback__ = whole


def first_error(error: BaseException) -> BaseException:
    """The exception that user code raised, without what it was wrapped in; else the error itself."""
    while isinstance(error, UserCodeError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _from_user_code(whole: TracebackType) -> TracebackType:
    found: TracebackType | None = whole
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return whole if found is None else found

"""Whether two errors of a job's code are the same."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.errors import first_cause, is_of_environment


@dataclass(frozen=True, slots=True)
class ErrorIdentity:
    """What makes two errors the same: where the exception was raised, and its type. Messages may differ by a value."""

    operator: str
    exception: str

    @staticmethod
    def of(error: BaseException, operator: str) -> ErrorIdentity | None:
        """Returns None if the environment failed: that is no error of the code, however often it happens."""
        if is_of_environment(error):
            return None
        kind = type(first_cause(error))
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        return ErrorIdentity(operator, name)

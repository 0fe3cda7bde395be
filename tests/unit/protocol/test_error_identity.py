"""When two errors of a job's code count as the same."""

from __future__ import annotations

from snapline.errors import UserCodeError
from snapline.protocol.error_identity import ErrorIdentity


class RowError(ValueError):
    """An error of a user."""


def test_errors_are_the_same_by_operator_and_type_whatever_they_say() -> None:
    identity = ErrorIdentity.of(ValueError("row 1"), "map")
    assert identity == ErrorIdentity.of(ValueError("row 2"), "map") == ErrorIdentity("map", "ValueError")
    assert identity != ErrorIdentity.of(KeyError("row 1"), "map")
    assert identity != ErrorIdentity.of(ValueError("row 1"), "filter")


def test_an_error_that_wraps_another_is_known_by_the_other() -> None:
    wrapped = UserCodeError("map raised RowError")
    wrapped.__cause__ = RowError("no id")
    assert ErrorIdentity.of(wrapped, "map") == ErrorIdentity("map", f"{__name__}.RowError")


def test_failures_of_the_environment_have_no_identity() -> None:
    assert ErrorIdentity.of(ConnectionError("refused"), "map") is None

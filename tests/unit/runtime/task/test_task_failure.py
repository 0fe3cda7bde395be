"""The failure of a task: what users read."""

from __future__ import annotations

import pytest

from snapline.errors import StorageError, UserCodeError
from snapline.runtime.task.task_failure import one_line, trace


def user_function() -> None:
    raise KeyError("price")


def wrapped(function: object) -> UserCodeError:
    assert callable(function)
    try:
        try:
            function()
        except Exception as error:
            raise UserCodeError(f"map 'm' raised {type(error).__name__}: {error}") from error
    except UserCodeError as error:
        return error
    raise AssertionError("it did not raise")


def test_the_trace_is_that_of_the_users_own_exception() -> None:
    error = wrapped(user_function)
    assert one_line(error) == "UserCodeError: map 'm' raised KeyError: 'price'"
    shown = trace(error)
    assert shown.count("Traceback (most recent call last)") == 1
    assert shown.rstrip().endswith("KeyError: 'price'")
    assert "user_function" in shown
    assert "UserCodeError" not in shown


def test_frames_of_this_package_above_the_users_code_are_left_out() -> None:
    def inner() -> None:
        import snapline.text

        snapline.text.size_text("not a number")  # type: ignore[arg-type]

    shown = trace(wrapped(inner))
    assert "inner" in shown
    assert "size_text" in shown, "what the user's code called is kept"


def test_an_error_of_the_engine_is_shown_whole() -> None:
    with pytest.raises(StorageError) as caught:
        raise StorageError("the disk is gone\nsecond line")
    assert one_line(caught.value) == "StorageError: the disk is gone"
    assert "test_an_error_of_the_engine_is_shown_whole" in trace(caught.value)


def test_a_module_that_user_code_imports_and_executors_lack() -> None:
    def importing() -> None:
        import numby_is_not_installed  # type: ignore[import-not-found]  # noqa: F401

    line = one_line(wrapped(importing))
    assert "No module named 'numby_is_not_installed'; install it where the executors run, or ship it" in line
    assert "\n" not in line

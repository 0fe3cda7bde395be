"""Errors travel between processes and keep what they carry."""

from __future__ import annotations

import pickle

import pytest

from snapline import errors
from snapline.state.stable_hash import NullKeyError
from snapline.storage.journals.journal_client import PublicationFencedError

ERRORS: list[errors.SnaplineError] = [
    errors.ConfigurationError("wrong"),
    errors.StorageError("gone", possibly_inconsistent=True),
    errors.ObjectNotFoundError("not there", path="/x"),
    errors.FencedError("stop", attempt=1, current=2),
    errors.IllegalTransitionError("machine", "state", "cause"),
    NullKeyError("user"),
    PublicationFencedError("stop", attempt=1, current=2, possibly_inconsistent=True, is_own=False),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_pickling(error: errors.SnaplineError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


def raised_from(error: BaseException, cause: BaseException | None) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("nobody there"),
        TimeoutError("no answer"),
        OSError(28, "no space left"),
        errors.StorageError("away"),
        errors.ObjectNotFoundError("gone, or its disk is", path="/x"),
        errors.PeerError("lost"),
        errors.TransientError("the service is down"),
        raised_from(errors.UserCodeError("map raised"), ConnectionResetError("reset")),
        raised_from(ValueError("no rows"), raised_from(KeyError("x"), TimeoutError("no answer"))),
    ],
    ids=repr,
)
def test_what_the_environment_does_may_pass(error: BaseException) -> None:
    assert errors.is_of_environment(error)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad row"),
        MemoryError(),
        FileNotFoundError("no such file"),
        PermissionError("not yours"),
        errors.UserCodeError("a row has no id"),
        errors.EngineError("a defect"),
        errors.DamagedError("cut off"),
        raised_from(errors.UserCodeError("map raised"), KeyError("x")),
    ],
    ids=repr,
)
def test_what_the_code_does_stays(error: BaseException) -> None:
    assert not errors.is_of_environment(error)


def test_an_error_raised_while_another_was_handled_is_of_its_kind_unless_it_says_otherwise() -> None:
    def fail(*, is_hidden: bool) -> None:
        try:
            raise ConnectionError("refused")
        except ConnectionError:
            if is_hidden:
                raise ValueError("a row that cannot be sent") from None
            raise ValueError("could not send")  # noqa: B904  # that is what it is about

    for is_hidden in (False, True):
        with pytest.raises(ValueError, match=r"sen[dt]") as caught:
            fail(is_hidden=is_hidden)
        assert errors.is_of_environment(caught.value) is not is_hidden


def test_a_circle_of_causes_has_an_end() -> None:
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    assert errors.first_cause(one) is two
    assert not errors.is_of_environment(one)


def test_the_first_cause_is_at_the_end_of_the_chain() -> None:
    root = ZeroDivisionError("by zero")
    assert errors.first_cause(raised_from(errors.UserCodeError("map raised"), root)) is root
    assert errors.first_cause(root) is root


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (errors.RestoreError("no fit"), True),
        (errors.ConfigurationError("wrong"), True),
        (errors.DamagedError("cut off"), True),
        (errors.StorageError("away"), False),
        (errors.ObjectNotFoundError("gone, or its disk is", path="/x"), False),
        (ValueError("bad row"), False),
    ],
    ids=repr,
)
def test_which_errors_no_restart_can_heal(error: BaseException, is_final: bool) -> None:
    assert errors.is_final(error) is is_final

"""The exception tree, split by whose fault it is. Messages say what to do next; errors carry their data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MESSAGE_EVENTS = 5
"""Events of a machine's story that the message of an error shows."""


class SnaplineError(Exception):
    """Base of everything this package raises on purpose. Can be pickled: errors are sent from tasks to the driver."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, dict(self.__dict__))


def _rebuilt(kind: type[SnaplineError], arguments: tuple[Any, ...], fields: dict[str, Any]) -> SnaplineError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(fields)
    return error


class ConfigurationError(SnaplineError, ValueError):
    """A setting is wrong. Nothing was started or changed."""


class UserCodeError(SnaplineError):
    """A user's function raised, or broke its contract."""


class TransientError(UserCodeError):
    """Something outside the job failed, so trying again may help.

    Raise it in your own code to say so: a job restarts after it as often as its restart strategy allows, while any
    other error that repeats ends the job (`Execution.same_error_limit`).
    """


class StorageError(SnaplineError):
    """A file system, object store or metadata store failed or refused.

    `possibly_inconsistent` is true when the operation may have taken effect although it was reported as failed.
    """

    def __init__(self, message: str, *, possibly_inconsistent: bool = False) -> None:
        super().__init__(message)
        self.possibly_inconsistent = possibly_inconsistent


class ObjectNotFoundError(StorageError):
    """There is no object at `path`."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class DamagedError(StorageError):
    """Stored data is truncated, altered, or in a format this version does not know."""


class StorageLostError(StorageError):
    """The checkpoints of a running job were deleted or replaced. It has nothing left that it could recover from."""


class FencedError(SnaplineError):
    """A newer attempt of the same job has taken over; this one must stop and leave everything as it is."""

    def __init__(self, message: str, *, attempt: int, current: int) -> None:
        super().__init__(message)
        self.attempt = attempt
        self.current = current


class PeerError(SnaplineError):
    """Another process of the job, or the network between, misbehaved."""


class RestoreError(SnaplineError):
    """A snapshot does not fit the job to restore from it. Nothing was started or changed."""


class EngineError(SnaplineError, AssertionError):
    """This engine broke one of its own rules: a defect of Snapline, never of the user's code.

    `story` holds the last events of the machine that raised it, oldest first, each with its effects. The message shows
    the newest of them.
    """

    story: tuple[str, ...] = ()

    def __str__(self) -> str:
        last = " | ".join(self.story[-MESSAGE_EVENTS:])
        return f"{super().__str__()}. Last events: {last}" if last else super().__str__()


class IllegalTransitionError(EngineError):
    """A machine was asked for a step its table does not have. The machine is unchanged."""

    def __init__(self, machine: str, state: str, cause: str) -> None:
        super().__init__(f"{machine}: no transition from {state} on {cause}")
        self.machine = machine
        self.state = state
        self.cause = cause


_OF_ENVIRONMENT = (OSError, TransientError, StorageError, PeerError, FencedError)
_OF_CODE = (DamagedError, FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Errors that are the same at the next attempt, although their base classes are those of the environment."""


def is_of_environment(error: BaseException) -> bool:
    """Whether an error, or one it was raised from, comes from a network, disk or system outside: a retry may help."""
    return any(isinstance(each, _OF_ENVIRONMENT) and not isinstance(each, _OF_CODE) for each in _chain(error))


def is_final(error: BaseException) -> bool:
    """Whether no restart can help: stored state is damaged, gone or does not fit the code, or a setting is wrong."""
    return isinstance(error, RestoreError | ConfigurationError | DamagedError | StorageLostError)


def first_cause(error: BaseException) -> BaseException:
    """The error that `error` was explicitly raised from, at the end of the chain."""
    seen = {id(error)}
    while error.__cause__ is not None and id(error.__cause__) not in seen:
        error = error.__cause__
        seen.add(id(error))
    return error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those behind it, as a traceback shows them."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = error.__cause__ if error.__cause__ is not None or error.__suppress_context__ else error.__context__

"""Operations that were asked for through REST: begun at once, their outcomes kept for a while under an id."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

from snapline.errors import ConfigurationError
from snapline.web.rest_errors import RestError, bad_request
from snapline.web.rest_ids import is_request_id, new_request_id

MAX_RUNNING = 100
"""Operations of one server under way at once."""

MAX_KEPT = 1000
"""Ended operations whose outcome is remembered."""

KEPT_S = 600.0
"""How long it is remembered, at most."""


class OperationKind(Enum):
    """What can be asked for. The value is the word for it in REST."""

    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    STOP = "stop"
    CANCEL = "cancel"
    DISPOSE = "dispose"


@dataclass(slots=True)
class Operation:
    """One operation. Read on the server's loop; the job sets `future`, on any thread."""

    request_id: str
    kind: OperationKind
    job_id: str
    future: Future[Any]
    ended_s: float | None = None

    @property
    def is_running(self) -> bool:
        return not self.future.done()

    @property
    def error(self) -> BaseException | None:
        """Why it failed; None if it runs, or was successful."""
        if self.is_running:
            return None
        return CancelledError("the request was dropped") if self.future.cancelled() else self.future.exception()

    @property
    def location(self) -> str | None:
        """The path of the snapshot that was taken."""
        if self.is_running or self.error is not None:
            return None
        result = self.future.result()
        return result if isinstance(result, str) else None

    @property
    def checkpoint_id(self) -> int | None:
        """The id of the checkpoint that was taken; None for savepoints, whose directories do not say."""
        number = (self.location or "").rstrip("/").rpartition("chk-")[2]
        return int(number) if self.kind is OperationKind.CHECKPOINT and number.isdecimal() else None


class Operations:
    """The operations of one server. Used on its loop only."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._known: OrderedDict[tuple[str, str, str], Operation] = OrderedDict()

    def begin(
        self, kind: OperationKind, job_id: str, given_id: str | None, start: Callable[[], Future[Any]]
    ) -> Operation:
        """Begin an operation by calling `start`. With an id that was given before, the operation of then is returned.

        Raises `RestError` if the id cannot be one, if too many are under way, or if a job refuses what it is asked for.
        """
        self._forget()
        if given_id is not None and not is_request_id(given_id):
            raise bad_request(f"triggerId {given_id!r} is not 32 hex digits; leave it out to get one")
        request_id = new_request_id() if given_id is None else given_id.lower()
        key = (_family(kind), job_id, request_id)
        if key in self._known:
            return self._known[key]
        if sum(operation.is_running for operation in self._known.values()) >= MAX_RUNNING:
            raise RestError(429, f"{MAX_RUNNING} operations are under way; wait until some of them have ended")
        operation = Operation(request_id, kind, job_id, start())
        if kind is not OperationKind.DISPOSE and isinstance(operation.error, ConfigurationError):
            # A job checks its own requests before it returns, while a disposal fails sooner or later.
            raise bad_request(str(operation.error)) from operation.error
        self._known[key] = operation
        return operation

    def find(self, request_id: str, family: OperationKind | None = None, job_id: str | None = None) -> Operation | None:
        """The operation with this id, of a family and a job if they are given."""
        self._forget()
        wanted = request_id.lower()
        for (known_family, known_job, known_id), operation in reversed(self._known.items()):
            is_of_family = family is None or known_family == _family(family)
            if known_id == wanted and is_of_family and job_id in (None, known_job):
                return operation
        return None

    def _forget(self) -> None:
        """Notice what has ended, and drop what ended long ago or is too much."""
        now_s, ended = self._now_s(), 0
        for key, operation in reversed(list(self._known.items())):
            if operation.is_running:
                continue
            if operation.ended_s is None:
                operation.ended_s = now_s
            ended += 1
            if ended > MAX_KEPT or now_s - operation.ended_s > KEPT_S:
                del self._known[key]


def _family(kind: OperationKind) -> str:
    """Stops are asked about under the path of savepoints, as in Flink."""
    return OperationKind.SAVEPOINT.value if kind is OperationKind.STOP else kind.value


def cancel_after(savepoint: Future[str], cancel: Callable[[], Future[None]]) -> Future[str]:
    """Cancels the job once its savepoint is there; the result is the savepoint's path, when the job has ended."""
    outcome: Future[str] = Future()

    def taken(done: Future[str]) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if error is not None:
            outcome.set_exception(error)
            return
        cancel().add_done_callback(lambda ended: cancelled(ended, done.result()))

    def cancelled(done: Future[None], path: str) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(path)

    savepoint.add_done_callback(taken)
    return outcome


def first_of(attempts: list[Callable[[], Future[None]]]) -> Future[None]:
    """Makes one attempt after the other until one is successful; fails with what all of them said."""
    outcome: Future[None] = Future()
    problems: list[str] = []

    def attempt(number: int) -> None:
        if number == len(attempts):
            said = "; ".join(dict.fromkeys(problems)) or "no job of this server could do it"
            outcome.set_exception(ConfigurationError(said))
            return
        attempts[number]().add_done_callback(lambda done: ended(done, number))

    def ended(done: Future[None], number: int) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if error is None:
            outcome.set_result(None)
            return
        problems.append(str(error))
        attempt(number + 1)

    attempt(0)
    return outcome

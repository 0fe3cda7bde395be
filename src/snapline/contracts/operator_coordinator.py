"""Operator coordinators: the part of an operator that runs on the driver and knows all its subtasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

MAX_EVENT_BYTES = 16 << 20
"""Largest event between a coordinator and a subtask, encoded: events are for decisions, rows for data."""


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """What the runtime offers a coordinator, from `start` on.

    `send(subtask, event)` sends plain data to a subtask, whose operator gets it in `handle_event`. Events leave when
    the coordinator's current call returns, wait until the subtask runs, and arrive in order; those for a subtask that
    has read all its input are dropped. `background(call, done)` makes a blocking call on another thread and then
    `done` with its future. `call_later(delay_ms, call)` makes a call after a delay.

    These work only inside a call of the coordinator. From any other thread use `post(call)`, which makes a call as one
    of the coordinator's own: one at a time, and never again after `close`.

    `restored_id` is the snapshot the attempt starts from, -1 if none; `is_restored` says that it has state of this
    coordinator, so `restore` follows `start`. `report_backlog(True)` says that there is much to catch up with, until
    `report_backlog(False)`: meanwhile `Checkpoints(interval_during_backlog=...)` applies. `clock` returns the time in
    milliseconds since 1970. `lineage` is as in `OperatorContext`.
    """

    job_id: str
    uid: str
    parallelism: int
    attempt: int
    lineage: str
    restored_id: int
    is_restored: bool
    clock: Callable[[], int]
    send: Callable[[int, Any], None]
    background: Callable[[Callable[[], Any], Callable[[Future[Any]], None]], None]
    call_later: Callable[[int, Callable[[], None]], None]
    post: Callable[[Callable[[], None]], None]
    report_backlog: Callable[[bool], None]


class OperatorCoordinator(ABC):
    """Decides on the driver for all subtasks of one operator; `Operator.make_coordinator` returns a new one.

    Each start of its region has its own: after a failure the old one is closed, and a new one starts and is restored.
    All calls come one at a time, from threads that block nothing else. An exception fails the job over, except in
    `snapshot`, where it fails the checkpoint.

    Events count exactly once with respect to checkpoints, in both directions. What was sent to a subtask before
    `snapshot` reaches it before the barrier; what is sent later, after it. What a subtask sent before its barrier and
    the coordinator handles after `snapshot` is kept in the checkpoint, and handled again after a restore.
    """

    context: CoordinatorContext

    def start(self, context: CoordinatorContext) -> None:
        """The attempt begins; no task runs yet. An override calls this first."""
        self.context = context

    def restore(self, checkpoint_id: int, state: Any) -> None:
        """Go on from what `snapshot` returned. Called after `start`, if the attempt starts from such a snapshot."""

    @abstractmethod
    def handle_event(self, subtask: int, event: Any) -> None:
        """A subtask has sent this with `OperatorContext.send_event`.

        After a restore at another parallelism, an event kept in the checkpoint may come from a subtask that no longer
        exists.
        """

    @abstractmethod
    def snapshot(self, checkpoint_id: int) -> Any:
        """Returns the state as plain data: numbers, text, bytes, lists, dicts with text keys. May not send events."""

    def drain(self, done: Callable[[], None]) -> None:
        """The job is to stop with a savepoint and drain. Hand out what is left, and call `done` when nothing is.

        The savepoint waits for that. Any thread may call `done`, during this call or later.
        """
        done()

    def resume(self) -> None:
        """The job was not stopped after all, although `drain` was called: go on as before."""

    def catch_up(self, done: Callable[[], None]) -> None:
        """Call `done` once everything that there is to read now has been read by the subtasks.

        Any thread may call it, during this call or later; nothing is stopped. Bounded sources do not count.
        """
        done()

    def subtask_failed(self, subtask: int, cause: str) -> None:
        """A subtask has failed or its process is lost. The attempt is over: `close` follows."""

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, which settles all older ones too."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete."""

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """A newer checkpoint has replaced this one and all before it: the job will not go back to them."""

    def close(self) -> None:
        """Release external resources. Called last, also after a failure."""

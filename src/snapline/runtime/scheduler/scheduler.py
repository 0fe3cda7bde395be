"""What the shells need of time and threads. Production implements it with threads and asyncio, the simulator with
its seeded kernel; nothing else in the runtime starts a thread, reads a clock or sets a timer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from snapline.runtime.scheduler.mailbox import Mailbox


class Cancellable(Protocol):
    """A call that is scheduled."""

    def cancel(self) -> None:
        """Never make the call; does nothing if it was made or cancelled before."""


class Scheduler(Protocol):
    """The loop of a shell that reacts to events: everything but `post` is called on the loop."""

    def now_ms(self) -> int:
        """Returns wall-clock time: barriers carry it to other machines."""

    def time_s(self) -> float:
        """Returns time that never goes back, for intervals."""

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Cancellable:
        """Make the call on the loop after a delay."""

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make the call on the loop soon, unless the loop is closed. Any thread."""

    def executor(self, threads: int, name: str) -> Executor:
        """Returns a new pool for blocking calls."""


class Thread(Protocol):
    """A thread that was made and may not have been started."""

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""

    def is_alive(self) -> bool: ...


class Threads(Protocol):
    """What the shells that have threads of their own need: the tasks of a slot, and its two processes."""

    def now_ms(self) -> int:
        """Returns wall-clock time, which is processing time."""

    def time_s(self) -> float:
        """Returns time that never goes back, for intervals."""

    def thread(self, call: Callable[[], None], name: str) -> Thread:
        """Returns a thread that has not been started and keeps no process alive."""

    def mailbox(self, clock: Callable[[], int]) -> Mailbox:
        """Returns a mailbox; `clock` is the time of its timers in milliseconds."""

    def executor(self, threads: int, name: str) -> Executor:
        """Returns a new pool for blocking calls."""

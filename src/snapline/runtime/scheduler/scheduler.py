"""What the shells need of time and threads: threads and asyncio in production, a seeded kernel in the simulator.
Nothing else in the runtime starts a thread, reads a clock or sets a timer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from snapline.runtime.scheduler.mailbox import Mailbox


class Cancellable(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Does nothing if the call was made or cancelled before."""


class Scheduler(Protocol):
    """The event loop of a shell. Everything but `post` is called on the loop."""

    def now_ms(self) -> int:
        """Returns time that never goes back nor jumps, for machines. Its beginning means nothing."""

    def wall_ms(self) -> int:
        """Returns wall-clock time, for people and for barriers, which carry it to other machines."""

    def time_s(self) -> float:
        """Returns `now_ms` in seconds."""

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Cancellable: ...

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Make the call on the loop soon; does nothing once the loop is closed. Any thread."""

    def executor(self, threads: int, name: str) -> Executor:
        """Returns a new pool for blocking calls. One that never returns does not keep the process alive."""


class Thread(Protocol):
    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class Threads(Protocol):
    """For the shells with threads of their own: a slot's tasks and its two processes."""

    def process_id(self) -> int: ...

    def now_ms(self) -> int:
        """Returns processing time: wall-clock time that never goes back."""

    def time_s(self) -> float:
        """Returns monotonic time, for intervals."""

    def thread(self, call: Callable[[], None], name: str) -> Thread:
        """Returns a daemon thread that is not started yet."""

    def mailbox(self, clock: Callable[[], int]) -> Mailbox:
        """Returns a mailbox whose timers use `clock`, in milliseconds."""

    def executor(self, threads: int, name: str) -> Executor:
        """Returns a new pool for blocking calls. One that never returns does not keep the process alive."""

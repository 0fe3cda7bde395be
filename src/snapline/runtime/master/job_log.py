"""What a master tells about its job: failures, events, and the end."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass

from snapline.types import JobStatus

MAX_EVENTS = 1000
MAX_TEXT_CHARACTERS = 500
MAX_LOG_CHARACTERS = 200_000
MAX_CAUSE_CHARACTERS = 4_000


def now_ms() -> int:
    """The time by the clock on the wall: barriers carry it to other machines."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed: `cause` in a line, `trace` if a task raised, `log` what its process said last."""

    cause: str
    trace: str = ""
    log: str = ""

    def with_more(self, text: str, log: str) -> Failure:
        """The same failure, with what became known of it later."""
        both = "\n".join(filter(None, (self.log, log)))[-MAX_LOG_CHARACTERS:]
        cause = f"{self.cause}; {text}" if len(self.cause) < MAX_CAUSE_CHARACTERS else self.cause
        return Failure(cause, self.trace, both)

    @property
    def message(self) -> str:
        return f"{self.cause}\n{self.trace}" if self.trace else self.cause


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job is to end. `must_record` says that no driver may run it again, which is to be recorded."""

    status: JobStatus
    must_record: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended for this driver, and why its last attempt failed, if one did."""

    status: JobStatus
    failure: Failure | None


class EventLog:
    """The latest events of a job with their times, for people and for measurements. Any thread may read and write."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[tuple[int, str]] = deque(maxlen=MAX_EVENTS)

    def add(self, text: str) -> None:
        with self._lock:
            self._events.append((now_ms(), text[:MAX_TEXT_CHARACTERS]))

    def all(self) -> list[tuple[int, str]]:
        with self._lock:
            return list(self._events)

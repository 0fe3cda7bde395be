"""Warns while a call does not return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from snapline.runtime.job_logs import JobLogger
from snapline.runtime.scheduler.scheduler import Cancellable

FIRST_WARNING_S = 10.0
LONGEST_PAUSE_S = 600.0

_log = JobLogger(__name__)


class Timers(Protocol):
    """What a watch needs of a scheduler."""

    def time_s(self) -> float: ...

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Cancellable: ...


class CallWatch:
    """Warns that `what` has not returned: after 10 s, after 20 s, and so on, each time after twice as long.

    Create it when the call begins, and call `end` when it has returned.
    """

    def __init__(self, timers: Timers, what: str) -> None:
        self._timers = timers
        self._what = what
        self._begun_s = timers.time_s()
        self._has_warned = False
        self._timer = timers.call_later(FIRST_WARNING_S, self._warn)

    def end(self) -> None:
        self._timer.cancel()
        if self._has_warned:
            _log.info("%s has returned after %.0f s", self._what, self._elapsed_s)

    @property
    def _elapsed_s(self) -> float:
        return self._timers.time_s() - self._begun_s

    def _warn(self) -> None:
        self._has_warned = True
        elapsed_s = self._elapsed_s
        _log.warning("%s has not returned after %.0f s", self._what, elapsed_s)
        self._timer = self._timers.call_later(min(elapsed_s, LONGEST_PAUSE_S), self._warn)

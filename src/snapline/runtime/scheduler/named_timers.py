"""Timers that are known by a name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler


class NamedTimers:
    """Calls to be made later on the loop, each under a name. Setting one again replaces it. Used on the loop only."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._timers: dict[Hashable, Cancellable] = {}

    def set(self, name: Hashable, delay_ms: int, call: Callable[..., None], *arguments: Any) -> None:
        def fire() -> None:
            self._timers.pop(name, None)
            call(*arguments)

        self.cancel(name)
        self._timers[name] = self._scheduler.call_later(max(delay_ms, 0) / 1000, fire)

    def cancel(self, name: Hashable) -> None:
        """Does nothing if there is no such timer."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        for name in tuple(self._timers):
            self.cancel(name)

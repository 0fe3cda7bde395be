"""Discovers splits that appear while a job runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snapline.errors import SnaplineError
from snapline.runtime.master.operator_coordinators import OperatorCoordinators
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler


class Discovery:
    """Asks each source of one attempt for more splits at its own interval; `send` gets them. Used on the loop only.

    To drain, it asks once more and waits until everything that was found has been read.
    """

    def __init__(
        self,
        coordinators: OperatorCoordinators,
        scheduler: Scheduler,
        on_hooks: BackgroundCalls,
        send: Callable[[str, Sequence[tuple[int, Any]]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._coordinators = coordinators
        self._on_hooks = on_hooks
        self._send = send
        self._failed = failed
        self._scheduler = scheduler
        self._timers: dict[str, Cancellable] = {}
        self._looking: set[str] = set()
        self._is_running = False
        self._drained: Callable[[], None] | None = None
        self._looks_left: dict[str, int] = {}
        """While draining, how often each source has still to be asked."""

    def start(self) -> None:
        self._is_running = True
        for operator in self._coordinators.discovery_intervals_ms:
            self._set_timer(operator)

    def stop(self) -> None:
        self._is_running = False
        self._drained = None
        self._cancel_timers()

    @property
    def is_needed(self) -> bool:
        """Whether any source may find more splits."""
        return self._is_running and bool(self._coordinators.discovery_intervals_ms)

    # Draining.

    def drain(self, done: Callable[[], None]) -> None:
        """Ask every source once more, then never again; calls `done` when all splits have been read."""
        self._drained = done
        self._cancel_timers()
        # A call that is under way may have looked before what was there now came.
        sources = self._coordinators.discovery_intervals_ms
        self._looks_left = {operator: 2 if operator in self._looking else 1 for operator in sources}
        for operator in set(sources) - self._looking:
            self._look(operator)

    def resume(self) -> None:
        """The job is not drained after all: ask at intervals again."""
        self._drained = None
        if self._is_running:
            for operator in set(self._coordinators.discovery_intervals_ms) - self._looking - set(self._timers):
                self._set_timer(operator)

    def check(self) -> None:
        """Subtasks may have read everything."""
        done = self._drained
        if done is None or any(self._looks_left.values()) or not self._coordinators.is_exhausted:
            return
        self._drained = None
        done()

    # Asking.

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _set_timer(self, operator: str) -> None:
        interval_s = self._coordinators.discovery_intervals_ms[operator] / 1000
        self._timers[operator] = self._scheduler.call_later(interval_s, self._look, operator)

    def _look(self, operator: str) -> None:
        self._looking.add(operator)
        self._timers.pop(operator, None)

        def found(splits: Any) -> None:
            self._looking.discard(operator)
            if not self._is_running:
                return
            try:
                answers = self._coordinators.discovered(operator, splits)
            except SnaplineError as error:
                self._failed(error)
                return
            self._send(operator, answers)
            self._looked(operator)

        def failed(error: Exception) -> None:
            self._looking.discard(operator)
            if self._is_running:
                self._failed(error)

        self._on_hooks.run(
            self._coordinators.discovery(operator), found, failed, f"discover() of the source {operator!r}"
        )

    def _looked(self, operator: str) -> None:
        if self._drained is None:
            self._set_timer(operator)
            return
        self._looks_left[operator] -= 1
        if self._looks_left[operator]:
            self._look(operator)
        else:
            self.check()

"""Discovers splits that appear while a job runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snapline.errors import SnaplineError
from snapline.runtime.master.operator_coordinators import OperatorCoordinators
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Cancellable, Scheduler


class Discovery:
    """Asks each source of one attempt for more splits at its own interval; `send` gets them. Used on the loop only."""

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
        self._is_running = False

    def start(self) -> None:
        self._is_running = True
        for operator in self._coordinators.discovery_intervals_ms:
            self._set_timer(operator)

    def stop(self) -> None:
        self._is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _set_timer(self, operator: str) -> None:
        interval_s = self._coordinators.discovery_intervals_ms[operator] / 1000
        self._timers[operator] = self._scheduler.call_later(interval_s, self._look, operator)

    def _look(self, operator: str) -> None:
        def found(splits: Any) -> None:
            if not self._is_running:
                return
            try:
                answers = self._coordinators.discovered(operator, splits)
            except SnaplineError as error:
                self._failed(error)
                return
            self._send(operator, answers)
            self._set_timer(operator)

        def failed(error: Exception) -> None:
            if self._is_running:
                self._failed(error)

        self._on_hooks.run(self._coordinators.discovery(operator), found, failed)

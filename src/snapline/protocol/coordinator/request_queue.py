"""The requests that wait to become checkpoints, and the timer that adds periodic ones."""

from __future__ import annotations

from snapline.config import Checkpoints
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.coordinator_events import CancelTimer, CoordinatorEffect, SetTimer, Timer, TimerKind
from snapline.protocol.coordinator.request_decider import Decision, Load, RequestDecider, TriggerRequest
from snapline.types import SnapshotKind

_PERIODIC = Timer(TimerKind.PERIODIC)


class RequestQueue:
    """The queue of one attempt. Orders about the periodic timer go to `effects`, the coordinator's own list."""

    def __init__(
        self, attempt: int, config: Checkpoints, carryover: Carryover, effects: list[CoordinatorEffect]
    ) -> None:
        self._attempt = attempt
        self._carryover = carryover
        self._schedule = carryover.schedule
        self._decider = RequestDecider(config.max_queued_requests, config.max_concurrent, config.min_pause_ms)
        self._effects = effects
        self._periodic_count = 0

    def start(self, now_ms: int, chance: float, hold_ms: int = 0) -> None:
        """Starts the periodic requests; `chance` in [0, 1) and `hold_ms` place the first."""
        self._schedule.start(now_ms, chance, hold_ms)
        self._set_timer()

    def stop(self) -> tuple[TriggerRequest, ...]:
        """Stops the periodic requests and empties the queue. The caller fails the requests returned."""
        self._schedule.stop()
        self._set_timer()
        return self._decider.drop_all()

    def timer_fired(self, now_ms: int) -> TriggerRequest | None:
        """The periodic request that is due, or None if the timer fired early."""
        is_due = self._schedule.fired(now_ms)
        if is_due or self._schedule.next_ms is not None:
            self._set_timer()
        if not is_due:
            return None
        self._periodic_count += 1
        name = f"periodic-{self._attempt}-{self._periodic_count}"
        return TriggerRequest(name, SnapshotKind.CHECKPOINT, False, True, now_ms)

    def postpone(self, now_ms: int, delay_ms: int) -> None:
        """Makes the next periodic request after the rest of the minimum pause."""
        self._schedule.postpone(now_ms, delay_ms)
        self._set_timer()

    def backlog_changed(self, source: str, has_backlog: bool, now_ms: int) -> None:
        if self._schedule.backlog_changed(source, has_backlog, now_ms):
            self._set_timer()

    def decide(
        self, offered: TriggerRequest | None, now_ms: int, *, triggering: bool, pending: int, cleaning: int
    ) -> Decision:
        """Which request starts now, and which fail; `offered` joins the queue first."""
        load = Load(
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=self._carryover.last_completed_ms,
        )
        return self._decider.poll(**load) if offered is None else self._decider.offer(offered, **load)

    def _set_timer(self) -> None:
        next_ms = self._schedule.next_ms
        self._effects.append(CancelTimer(_PERIODIC) if next_ms is None else SetTimer(_PERIODIC, next_ms))

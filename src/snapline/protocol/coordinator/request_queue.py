"""The requests that wait to become checkpoints, the timer that adds periodic ones, and when each times out."""

from __future__ import annotations

from snapline.config import Checkpoints
from snapline.protocol.coordinator.carryover import Carryover
from snapline.protocol.coordinator.coordinator_events import CancelTimer, CoordinatorEffect, SetTimer, Timer, TimerKind
from snapline.protocol.coordinator.request_decider import Decision, Load, RequestDecider, TriggerRequest
from snapline.types import SnapshotKind

_PERIODIC = Timer(TimerKind.PERIODIC)


class RequestQueue:
    """The queue of one attempt. Orders about timers go to `effects`, the coordinator's own list.

    A request of a user has to be a complete checkpoint within the timeout. A periodic one may have waited for the one
    before, so its time begins with its turn; at most one waits.
    """

    def __init__(
        self, attempt: int, config: Checkpoints, carryover: Carryover, effects: list[CoordinatorEffect]
    ) -> None:
        self._attempt = attempt
        self._carryover = carryover
        self._schedule = carryover.schedule
        self._decider = RequestDecider(config.max_queued_requests, config.max_concurrent, config.min_pause_ms)
        self._effects = effects
        self._timeout_ms = config.timeout_ms
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
        """The periodic request that is due, or None: the timer fired early, or the last request still waits."""
        is_due = self._schedule.fired(now_ms)
        if is_due or self._schedule.next_ms is not None:
            self._set_timer()
        if not is_due or any(request.periodic for request in self._decider.queued):
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
        if offered is not None and not offered.periodic:
            self._set_timeout(offered, offered.timestamp_ms)
        load = Load(
            triggering=triggering,
            pending=pending,
            cleaning=cleaning,
            now_ms=now_ms,
            last_completed_ms=self._carryover.last_completed_ms,
        )
        decision = self._decider.poll(**load) if offered is None else self._decider.offer(offered, **load)
        if decision.chosen is not None and decision.chosen.periodic:
            self._set_timeout(decision.chosen, now_ms)
        return decision

    def take(self, name: str) -> TriggerRequest | None:
        """Take a waiting request out of the queue. Returns None if it does not wait."""
        return self._decider.take(name)

    def ended(self, request: TriggerRequest) -> None:
        """A request is complete or has failed: it no longer times out."""
        self._effects.append(CancelTimer(Timer(TimerKind.TIMEOUT, request.name)))

    def _set_timeout(self, request: TriggerRequest, since_ms: int) -> None:
        self._effects.append(SetTimer(Timer(TimerKind.TIMEOUT, request.name), since_ms + self._timeout_ms))

    def _set_timer(self) -> None:
        next_ms = self._schedule.next_ms
        self._effects.append(CancelTimer(_PERIODIC) if next_ms is None else SetTimer(_PERIODIC, next_ms))

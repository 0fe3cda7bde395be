"""Says in the log and the events how a job's checkpoints fare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from snapline.protocol.coordinator.checkpoint_alarm import CheckpointAlarm, failure_text
from snapline.protocol.snapshot import Snapshot
from snapline.protocol.statistics.explanation import Explanation
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_log import EventLog
from snapline.types import NO_CHECKPOINT, FailureReason

MAX_FAILURE_EVENTS = 50
"""Failures in a row that are events each; further ones only with a warning, so that they do not push out all others."""

_log = JobLogger(__name__)


class Explainer(Protocol):
    """Says why checkpoints take their time."""

    def checkpoint_ended(self, checkpoint_id: int) -> Explanation | None:
        """A checkpoint is complete or has failed."""

    def checkpoint_under_way(self) -> Explanation | None:
        """The oldest checkpoint in progress."""


class CheckpointReports:
    """The shell of `CheckpointAlarm`. Used on the loop only."""

    def __init__(
        self,
        job_name: str,
        events: EventLog,
        time_s: Callable[[], float],
        explainer: Explainer,
    ) -> None:
        self._job_name = job_name
        self._events = events
        self._time_s = time_s
        self._explainer = explainer
        self._alarm = CheckpointAlarm()

    def running(self) -> None:
        self._alarm.running(self._now_ms())

    def left(self) -> None:
        self._alarm.left()

    def completed(self, snapshot: Snapshot) -> None:
        self._explainer.checkpoint_ended(snapshot.id)
        self._events.add(f"{snapshot.kind.value.lower()} {snapshot.id} complete")
        text = self._alarm.completed(self._now_ms()) if not snapshot.kind.is_savepoint else None
        if text is not None:
            self._events.add(text)
            _log.warning("job %s: %s", self._job_name, text, checkpoint=snapshot.id)

    def failed(self, checkpoint_id: int | None, reason: FailureReason, message: str) -> None:
        explanation = None if checkpoint_id is None else self._explainer.checkpoint_ended(checkpoint_id)
        if reason.is_routine:
            return
        number = NO_CHECKPOINT if checkpoint_id is None else checkpoint_id
        warning = self._alarm.failed(number, reason, message, self._now_ms(), explanation)
        if warning is not None or self._alarm.failures <= MAX_FAILURE_EVENTS:
            self._events.add(warning or failure_text(number, reason, message))
        if warning is not None:
            _log.warning("job %s: %s", self._job_name, warning, checkpoint=checkpoint_id)

    def look(self, interval_ms: int | None) -> None:
        """Call it with every heartbeat; `interval_ms` is the current interval of periodic checkpoints, if any."""
        warning = self._alarm.look(interval_ms, self._now_ms())
        if warning is not None:
            said = self._explainer.checkpoint_under_way()
            if said is not None:
                warning = (
                    f"{warning}. Checkpoint {said.checkpoint_id}: {said.sentence}{said.advice and f'; {said.advice}'}"
                )
            self._events.add(warning)
            _log.warning("job %s: %s", self._job_name, warning)

    def _now_ms(self) -> int:
        return round(self._time_s() * 1000)

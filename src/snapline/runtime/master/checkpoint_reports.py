"""Says in the log and the events how a job's checkpoints fare."""

from __future__ import annotations

import logging
from collections.abc import Callable

from snapline.protocol.coordinator.checkpoint_alarm import CheckpointAlarm, failure_text
from snapline.protocol.snapshot import Snapshot
from snapline.runtime.master.job_log import EventLog
from snapline.types import NO_CHECKPOINT, FailureReason

MAX_FAILURE_EVENTS = 50
"""Failures in a row that are events each; further ones only with a warning, so that they do not push out all others."""

_log = logging.getLogger(__name__)


class CheckpointReports:
    """The shell of `CheckpointAlarm`. Used on the loop only."""

    def __init__(self, job_name: str, events: EventLog, time_s: Callable[[], float]) -> None:
        self._job_name = job_name
        self._events = events
        self._time_s = time_s
        self._alarm = CheckpointAlarm()

    def running(self) -> None:
        self._alarm.running(self._now_ms())

    def left(self) -> None:
        self._alarm.left()

    def completed(self, snapshot: Snapshot) -> None:
        self._events.add(f"{snapshot.kind.value.lower()} {snapshot.id} complete")
        text = self._alarm.completed(self._now_ms()) if not snapshot.kind.is_savepoint else None
        if text is not None:
            self._events.add(text)
            _log.warning("job %s: %s", self._job_name, text)

    def failed(self, checkpoint_id: int | None, reason: FailureReason, message: str) -> None:
        if reason.is_routine:
            return
        number = NO_CHECKPOINT if checkpoint_id is None else checkpoint_id
        warning = self._alarm.failed(number, reason, message, self._now_ms())
        if warning is not None or self._alarm.failures <= MAX_FAILURE_EVENTS:
            self._events.add(warning or failure_text(number, reason, message))
        if warning is not None:
            _log.warning("job %s: %s", self._job_name, warning)

    def look(self, interval_ms: int | None) -> None:
        """Call it with every heartbeat; `interval_ms` is the current interval of periodic checkpoints, if any."""
        warning = self._alarm.look(interval_ms, self._now_ms())
        if warning is not None:
            self._events.add(warning)
            _log.warning("job %s: %s", self._job_name, warning)

    def _now_ms(self) -> int:
        return round(self._time_s() * 1000)

"""When the next periodic checkpoint is due."""

from __future__ import annotations

from snapline.config import Checkpoints

LEAST_HOLD_LIMIT_MS = 1000
"""However short the interval, the first checkpoint after a failure of the job's code may be held back for this long."""


class PeriodicSchedule:
    """A fixed-rate schedule: planned times are whole intervals apart. A late tick fires at once, missed ones never do.

    While any source reports backlog, the interval during backlog applies; it may switch periodic checkpoints off.
    """

    def __init__(self, config: Checkpoints) -> None:
        self._config = config
        self._backlog: set[str] = set()
        self._started_before = False
        self._running = False
        self.next_ms: int | None = None

    @property
    def interval_ms(self) -> int | None:
        """The interval that applies now; None if periodic checkpoints are off."""
        if self._backlog:
            return self._config.effective_interval_during_backlog_ms
        return self._config.effective_interval_ms

    def start(self, now_ms: int, chance: float, hold_ms: int = 0) -> int | None:
        """Starts; `chance` in [0, 1) places the first time between the minimum pause and the interval.

        After a stop it is exactly the minimum pause; while sources wait for their first checkpoint, at most twice that.
        After a failure of the job's code it is `hold_ms`, within limits: a checkpoint before the row that failed would
        look like progress.
        """
        self._running = True
        low, high = self._config.min_pause_ms, self.interval_ms
        if high is None:
            self.next_ms = None
        elif self._started_before:
            self.next_ms = now_ms + max(low, min(hold_ms, max(2 * high, LEAST_HOLD_LIMIT_MS)))
        else:
            if self._config.pause_sources_until_first:
                high = 2 * low
            self.next_ms = now_ms + low + int((high - low) * chance)
        self._started_before = True
        return self.next_ms

    def stop(self) -> None:
        """Stops. The next start is a restart, and sources report their backlog anew."""
        self._running = False
        self.next_ms = None
        self._backlog.clear()

    def fired(self, now_ms: int) -> bool:
        """The timer fired: plans the next time. True if a checkpoint is due."""
        interval_ms = self.interval_ms
        if not self._running or self.next_ms is None or now_ms < self.next_ms:
            return False
        if interval_ms is None:
            self.next_ms = None
            return False
        self.next_ms += interval_ms * (1 + (now_ms - self.next_ms) // interval_ms)
        return True

    def postpone(self, now_ms: int, delay_ms: int) -> None:
        """The checkpoint came too early: the next one is due after the rest of the minimum pause."""
        if self._running:
            self.next_ms = now_ms + delay_ms

    def backlog_changed(self, source: str, has_backlog: bool, now_ms: int) -> bool:
        """A source reports whether it is behind. True if the next time is earlier now."""
        if has_backlog:
            self._backlog.add(source)
        else:
            self._backlog.discard(source)
        interval_ms = self.interval_ms
        if not self._running or interval_ms is None:
            return False
        candidate_ms = now_ms + interval_ms
        if self.next_ms is not None and self.next_ms <= candidate_ms:
            return False
        self.next_ms = candidate_ms
        return True

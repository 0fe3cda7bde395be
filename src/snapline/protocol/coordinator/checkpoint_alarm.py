"""When to warn that checkpoints fail, or that none completes."""

from __future__ import annotations

from snapline.protocol.statistics.explanation import Explanation
from snapline.protocol.statistics.failure_sentences import advice_on
from snapline.types import NO_CHECKPOINT, FailureReason

FIRST_PAUSE_MS = 10_000
LONGEST_PAUSE_MS = 600_000
"""The pause between two warnings doubles from the first to this one, until a checkpoint completes."""

MOST_PASSING = 5
"""So many checkpoints in a row that tasks decline are worth a warning."""

OVERDUE_INTERVALS = 5
LEAST_OVERDUE_MS = 5_000
"""A running job warns when no checkpoint has completed for this many intervals, and at least this long."""


class CheckpointAlarm:
    """Follows the checkpoints of a job over its attempts. Methods return the warning that is due now, or None.

    A failure that is routine, such as a checkpoint cut off by a restart, is none. Times come from a clock that never
    goes back.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._last = ""
        self._since_ms: int | None = None
        self._is_running = False
        self._due_ms = 0
        self._pause_ms = FIRST_PAUSE_MS
        self._has_warned = self._has_told_why = False

    def running(self, now_ms: int) -> None:
        """All tasks run. Time in which they do not does not count as time without a checkpoint."""
        self._is_running = True
        self._since_ms = now_ms

    def left(self) -> None:
        """The job has left the running state."""
        self._is_running = False

    def failed(
        self,
        checkpoint_id: int,
        reason: FailureReason,
        message: str,
        now_ms: int,
        explanation: Explanation | None = None,
    ) -> str | None:
        """A checkpoint failed, or did not start (`NO_CHECKPOINT`). A few that tasks decline may pass.

        The warning names the subtask that the `explanation` of one that expired blames, and its advice.
        At its end a job may be waiting for its last commits, when no further checkpoint can be taken.
        """
        if reason.is_routine:
            return None
        self.failures += 1
        self._last = failure_text(checkpoint_id, reason, message)
        if reason.is_passing and self.failures < MOST_PASSING:
            return None
        # Why one fails is new, even after a warning that none completes.
        if not self._is_due(now_ms, is_first=not self._has_told_why):
            return None
        self._has_told_why = True
        others = f" ({self.failures} have failed since one last completed)" if self.failures > 1 else ""
        text, advice = self._last, advice_on(reason)
        if explanation is not None and reason is FailureReason.CHECKPOINT_EXPIRED:
            text, advice = failure_text(checkpoint_id, reason, explanation.sentence), explanation.advice
        return (
            f"{text}{others}; {advice}. The job goes on, but a failure would repeat "
            "all work since the last completed checkpoint, and output waits for the next"
        )

    def look(self, interval_ms: int | None, now_ms: int) -> str | None:
        """Call it every second or so; `interval_ms` is that of periodic checkpoints now, None if there are none."""
        if not self._is_running or self._since_ms is None or interval_ms is None:
            return None
        missing_ms = now_ms - self._since_ms
        if missing_ms < max(OVERDUE_INTERVALS * interval_ms, LEAST_OVERDUE_MS) or not self._is_due(now_ms):
            return None
        last = f"the last one that failed: {self._last}" if self._last else "none has failed, one may be under way"
        return (
            f"no checkpoint has completed for {missing_ms / 1000:.0f} s, though one is due every "
            f"{interval_ms / 1000:g} s; {last}. A failure would repeat all work since the last completed one"
        )

    def completed(self, now_ms: int) -> str | None:
        """A checkpoint completed. Returns what to say after warnings."""
        failures, had_warned = self.failures, self._has_warned
        self.failures, self._last, self._since_ms = 0, "", now_ms
        self._has_warned, self._has_told_why, self._due_ms, self._pause_ms = False, False, 0, FIRST_PAUSE_MS
        return f"checkpoints complete again, after {failures} failed" if had_warned else None

    def _is_due(self, now_ms: int, *, is_first: bool = False) -> bool:
        """Whether to warn now; counts on it that the caller does."""
        if self._has_warned and now_ms < self._due_ms and not is_first:
            return False
        self._has_warned = True
        self._due_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        return True


def failure_text(checkpoint_id: int, reason: FailureReason, message: str) -> str:
    what = "a checkpoint could not start" if checkpoint_id == NO_CHECKPOINT else f"checkpoint {checkpoint_id} failed"
    return f"{what} ({reason.value}): {message}"

"""How many failed checkpoints fail the job."""

from __future__ import annotations

from snapline.errors import ConfigurationError
from snapline.types import NO_CHECKPOINT, FailureReason


class FailureCounter:
    """Counts consecutive failures against the number the user tolerates; None tolerates any number.

    Report every failed snapshot to `failed` and every completed one to `completed`, as they happen.
    """

    def __init__(self, tolerable: int | None) -> None:
        if tolerable is not None and tolerable < 0:
            raise ConfigurationError(f"tolerable is {tolerable}; use 0 to tolerate no failure, None to tolerate all")
        self._tolerable = tolerable
        self._last_completed = NO_CHECKPOINT
        self._failures = 0
        self._counted_ids: set[int] = set()

    def failed(
        self, checkpoint_id: int, reason: FailureReason, *, savepoint: bool, synchronous: bool, from_task: bool
    ) -> bool:
        """Note a failure; True means that the job must fail now.

        `checkpoint_id` is NO_CHECKPOINT if there was none yet. A synchronous snapshot is a savepoint, whatever
        `savepoint` says. `from_task`: a task reported the failure, not the coordinator.
        """
        if reason.is_preflight or not from_task:
            return not (savepoint or synchronous) and self._exceeds(checkpoint_id, reason)
        # A task that failed a synchronous savepoint may have stopped for it: only a restart brings it back.
        return synchronous or self._exceeds(checkpoint_id, reason)

    def completed(self, checkpoint_id: int) -> None:
        """Note a success. One that is newer than all before resets the count."""
        if checkpoint_id > self._last_completed:
            self._last_completed = checkpoint_id
            self._clear()

    def _exceeds(self, checkpoint_id: int, reason: FailureReason) -> bool:
        if self._tolerable is None or not reason.is_counted:
            return False
        if checkpoint_id != NO_CHECKPOINT:
            if checkpoint_id <= self._last_completed or checkpoint_id in self._counted_ids:
                return False
            self._counted_ids.add(checkpoint_id)
        self._failures += 1
        if self._failures <= self._tolerable:
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self._failures = 0
        self._counted_ids.clear()

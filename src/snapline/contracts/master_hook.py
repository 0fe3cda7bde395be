"""Master hooks: something outside that takes part in every checkpoint from the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod


class MasterHook(ABC):
    """Called on the driver, on a thread that may block, one call at a time. `name` is its own in the job."""

    name: str

    @abstractmethod
    def snapshot(self, checkpoint_id: int) -> bytes | None:
        """Take part in a checkpoint, before its tasks do; what is given back is kept in it. Raising fails it."""

    @abstractmethod
    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """The job starts from this checkpoint; none is kept of a hook that was not there when it was taken."""

    def reset(self) -> None:
        """The job starts from its beginning."""

"""Master hooks: external systems that take part in every checkpoint from the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod


class MasterHook(ABC):
    """Called on the driver, one call at a time, on a thread that may block. `name` is unique within the job."""

    name: str

    @abstractmethod
    def snapshot(self, checkpoint_id: int) -> bytes | None:
        """Called before the tasks take their part; the result is stored in the checkpoint. Raising fails it."""

    @abstractmethod
    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        """The job starts from this checkpoint. `state` is None if the checkpoint was taken without this hook."""

    def reset(self) -> None:
        """The job starts from scratch."""

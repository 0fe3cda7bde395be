"""Which objects later checkpoints may refer to instead of writing them again."""

from __future__ import annotations

from typing import Generic, TypeVar

from snapline.protocol.snapshot import StoredObject

K = TypeVar("K")


class SharedObjects(Generic[K]):
    """The shared objects of checkpoints by name: those of the last complete one can be reused."""

    def __init__(self) -> None:
        self._reusable: dict[K, StoredObject] = {}
        self._offered: dict[int, dict[K, StoredObject]] = {}

    def reusable(self) -> dict[K, StoredObject]:
        """A copy of what the last complete checkpoint refers to."""
        return dict(self._reusable)

    def restored(self, objects: dict[K, StoredObject]) -> None:
        """Begin with the objects of a restored checkpoint, which is complete."""
        self._reusable = objects

    def offer(self, checkpoint_id: int, objects: dict[K, StoredObject]) -> None:
        """Record what a checkpoint refers to. Any thread."""
        self._offered[checkpoint_id] = objects

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is complete, which settles all older ones."""
        if checkpoint_id in self._offered:
            self._reusable = self._offered[checkpoint_id]
            # A copy, because another thread may offer objects meanwhile.
            for other in list(self._offered):
                if other <= checkpoint_id:
                    self._offered.pop(other, None)

    def abort(self, checkpoint_id: int) -> None:
        self._offered.pop(checkpoint_id, None)

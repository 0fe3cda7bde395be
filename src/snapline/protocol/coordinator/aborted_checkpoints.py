"""The last checkpoints that were given up: messages about them may still come."""

from __future__ import annotations

from collections import OrderedDict

from snapline.types import SnapshotKind


class AbortedCheckpoints:
    """Remembers up to `limit`, the newest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: OrderedDict[int, tuple[SnapshotKind, str | None]] = OrderedDict()

    def add(self, checkpoint_id: int, kind: SnapshotKind, location: str | None) -> None:
        self._known[checkpoint_id] = (kind, location)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def kind(self, checkpoint_id: int) -> SnapshotKind | None:
        """Returns the kind of a checkpoint, or None if it is not remembered."""
        known = self._known.get(checkpoint_id)
        return None if known is None else known[0]

    def location(self, checkpoint_id: int) -> str | None:
        """Returns where the objects of a checkpoint are, or None if it had no place or is not remembered."""
        known = self._known.get(checkpoint_id)
        return None if known is None else known[1]

"""How often the same error of a job's code has happened since its last completed checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.snapshot import Snapshot, StoredObject

MAX_ERRORS = 100
"""Different errors that are counted at once; beyond that the one that has been known for longest is forgotten."""


class RepeatedErrors:
    """Counts errors by identity. Without progress the same rows meet the same code, so the same error comes again.

    Failures of the environment between two errors do not count and change nothing. `limit` of None is no limit.
    """

    def __init__(self, limit: int | None) -> None:
        self.count = 0
        self._limit = limit
        self._known: dict[ErrorIdentity, tuple[int, frozenset[int]]] = {}

    def failed(self, identity: ErrorIdentity | None, regions: frozenset[int]) -> None:
        """These regions of the job failed; `identity` is None if the environment was at fault."""
        if identity is None:
            self.count = 0
            return
        self.count = self._known.get(identity, (0, regions))[0] + 1
        self._known[identity] = self.count, regions
        if len(self._known) > MAX_ERRORS:
            del self._known[next(iter(self._known))]

    def checkpoint_completed(self, moved: frozenset[int]) -> None:
        """These regions have moved on: what failed there before is over."""
        self._known = {identity: known for identity, known in self._known.items() if not known[1] & moved}

    @property
    def is_too_many(self) -> bool:
        """Whether the last failure was one too many."""
        return self._limit is not None and self.count >= self._limit

    @property
    def note(self) -> str:
        """What to say about the last failure; empty if it was the first of its kind."""
        if self.count < 2 and not self.is_too_many:
            return ""
        text = f"the same error for the {_ordinal(self.count)} time"
        if self.is_too_many:
            text += f" without a completed checkpoint in between, so the job fails (same_error_limit={self._limit})"
        return text


def has_moved(before: Snapshot | None, after: Snapshot, sources: Iterable[str]) -> bool:
    """Whether a source of the job has read anything between two snapshots; `before` of None is the job's beginning.

    A checkpoint of sources that still wait for their first row would otherwise look like progress.
    """
    return before is None or any(_position(before, uid) != _position(after, uid) for uid in sources)


def _position(snapshot: Snapshot, uid: str) -> object:
    operator = snapshot.operators.get(uid)
    if operator is None:
        return None
    parts = {
        (index, part.name): (part.elements, _content(part.object))
        for index, state in operator.subtasks.items()
        for part in state.operator
    }
    return operator.fully_finished, _content(operator.coordinator), parts


def _content(item: StoredObject | None) -> tuple[int, int | None] | None:
    return None if item is None else (item.size_bytes, item.crc32)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"

"""Files that several checkpoints share: which checkpoint made them, which need them, and when to delete them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from snapline.errors import EngineError
from snapline.types import NO_CHECKPOINT

H = TypeVar("H", bound=Hashable)


class Placeholder(Enum):
    """The type of `PLACEHOLDER`."""

    PLACEHOLDER = "PLACEHOLDER"


PLACEHOLDER: Final = Placeholder.PLACEHOLDER
"""Sent in place of a handle that the registry already has under the same key."""


@dataclass(frozen=True, slots=True)
class Unused(Generic[H]):
    """The result of a cleanup.

    `deleted`: keys and handles of the files to delete now. `in_use`: restored snapshots, ascending, that must not be
    deleted yet even if they are subsumed, because files inside them are still used.
    """

    deleted: tuple[tuple[str, H], ...]
    in_use: tuple[int, ...]


@dataclass(slots=True)
class _Entry(Generic[H]):
    handle: H
    created_by: int
    last_used: int


class SharedStateRegistry(Generic[H]):
    """All shared files of a job by key. Nothing else may delete one.

    After a restore, call `restored` for each restored snapshot before anything is registered; register the shared
    state of every acknowledgement; call `unregister_unused` after each completed checkpoint.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry[H]] = {}
        self._highest_unclaimed = NO_CHECKPOINT
        self._self_contained: set[int] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def register(self, key: str, handle: H | Placeholder, checkpoint_id: int) -> H:
        """Notes that `checkpoint_id` uses `key`, and returns the handle that it must store.

        The handle is a new one, the known one again, or `PLACEHOLDER` for the known one. Anything else raises
        `EngineError` and changes nothing.
        """
        self._check(key, handle)
        entry = self._entries.get(key)
        if entry is None:
            assert not isinstance(handle, Placeholder)
            entry = self._entries[key] = _Entry(handle, checkpoint_id, checkpoint_id)
        entry.last_used = max(entry.last_used, checkpoint_id)
        return entry.handle

    def restored(
        self, checkpoint_id: int, entries: Mapping[str, H | Placeholder], *, claim: bool, sharing: bool
    ) -> None:
        """Registers the shared state of a snapshot that the job was restored from.

        `claim`: the job owns the snapshot; the files of one it does not own, and of all older ones, are never deleted.
        `sharing`: its shared files lie outside it; off for a savepoint, whose files would go when it is deleted.
        """
        for key, handle in entries.items():
            self._check(key, handle)
        for key, handle in entries.items():
            self.register(key, handle, checkpoint_id)
        if not claim:
            self._highest_unclaimed = max(self._highest_unclaimed, checkpoint_id)
        if not sharing:
            self._self_contained.add(checkpoint_id)

    def unregister_unused(self, lowest_checkpoint_id: int) -> Unused[H]:
        """Forgets what no checkpoint from `lowest_checkpoint_id` on uses: the lowest retained one, savepoints aside."""
        unused = [(key, entry) for key, entry in self._entries.items() if entry.last_used < lowest_checkpoint_id]
        for key, _ in unused:
            del self._entries[key]
        return Unused(
            deleted=tuple((key, entry.handle) for key, entry in unused if entry.created_by > self._highest_unclaimed),
            in_use=tuple(sorted(self._self_contained & {entry.created_by for entry in self._entries.values()})),
        )

    def _check(self, key: str, handle: H | Placeholder) -> None:
        known = self._entries.get(key)
        if isinstance(handle, Placeholder):
            if known is None:
                raise EngineError(
                    f"shared state {key!r}: a placeholder was sent for a handle that was never registered"
                )
        elif known is not None and known.handle != handle:
            raise EngineError(f"shared state {key!r}: {handle!r} was sent, but {known.handle!r} is registered")

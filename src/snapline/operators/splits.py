"""Dealing out the splits of a source, on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from snapline.api.source import Source, Split
from snapline.errors import DamagedError, EngineError, UserCodeError


class SplitAssigner:
    """Knows the splits of one source that no subtask has yet. Every split is given to one subtask, once.

    Those of a bounded source go one by one to whoever asks. Those of a source that does not end are shared out at
    once: each subtask has a share of its own, whenever it asks for it.
    """

    def __init__(self, source: Source, parallelism: int) -> None:
        self._source = source
        self._parallelism = parallelism
        self._unassigned: list[tuple[int | None, Split]] = []
        """Each with the subtask it is meant for; none is any."""

    def start(self) -> None:
        """The job starts from its beginning."""
        splits = self._source.splits(self._parallelism)
        try:
            # What travels and is kept is what every subtask sees, also the one that gets it first.
            self._share_out(msgspec.msgpack.decode(msgspec.msgpack.encode(list(splits))))
        except (TypeError, msgspec.MsgspecError, OverflowError) as error:
            raise UserCodeError(
                f"a split of {type(self._source).__name__} is no plain data: {error}; use numbers, text, bytes, lists "
                "and dicts with text keys"
            ) from error

    def restore(self, data: bytes) -> None:
        """The job starts from a snapshot that holds `data`."""
        try:
            splits = msgspec.msgpack.decode(data, type=list[Any])
        except msgspec.MsgspecError as error:
            raise DamagedError(f"the unassigned splits in the snapshot cannot be read: {error}") from error
        self._share_out(splits)

    def snapshot(self) -> bytes:
        """What is not assigned yet."""
        return msgspec.msgpack.encode([split for _, split in self._unassigned])

    def assign(self, subtask: int) -> dict[str, Any]:
        """Answer a subtask that asks: its next splits, and whether there may be more for it later."""
        if not 0 <= subtask < self._parallelism:
            raise EngineError(f"subtask {subtask} asks for splits at parallelism {self._parallelism}")
        if self._source.is_bounded:
            splits = [split for _, split in self._unassigned[:1]]
            del self._unassigned[:1]
            return {"splits": splits, "more": bool(self._unassigned)}
        splits = [split for owner, split in self._unassigned if owner == subtask]
        self._unassigned = [(owner, split) for owner, split in self._unassigned if owner != subtask]
        return {"splits": splits, "more": False}

    def _share_out(self, splits: Sequence[Split]) -> None:
        if self._source.is_bounded:
            self._unassigned = [(None, split) for split in splits]
        else:
            self._unassigned = [(number % self._parallelism, split) for number, split in enumerate(splits)]

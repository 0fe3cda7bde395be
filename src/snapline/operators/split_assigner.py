"""Dealing out the splits of a source, on the driver."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import msgspec

from snapline.contracts.plain_data import plain_data
from snapline.contracts.source import Source, Split
from snapline.errors import DamagedError, EngineError, UserCodeError

Answer: TypeAlias = dict[str, Any]
"""For a subtask that has asked: `splits` to read, and whether there may be `more` of them later; or `nothing` now."""


class _State(msgspec.Struct, frozen=True):
    """What a checkpoint holds: the splits that are not assigned, and what the source knows of all it has discovered.

    `found` says for each discovery that is not read yet how many of the splits are its own, and what was known then;
    None in snapshots of versions that did not know.
    """

    splits: list[Any]
    known: Any
    found: list[tuple[int, Any]] | None = None


@dataclass(slots=True)
class _Found:
    """The splits of one discovery: how many nobody has yet, and the subtasks that may still be reading some."""

    known: Any
    unassigned: int
    readers: set[int]


class SplitAssigner:
    """Knows the splits of one source that no subtask has yet. Every split is given to one subtask, once.

    They go one by one to whoever asks; those that are read in step are shared out: each subtask has a share of its own,
    whenever it asks for it. If there is nothing for a subtask now, but may be later, it is told so once, and gets its
    answer later.
    """

    def __init__(self, source: Source, parallelism: int) -> None:
        self._source = source
        self._parallelism = parallelism
        self._unassigned: list[deque[Split]] = [deque() for _ in range(parallelism if source.in_step else 1)]
        """For each subtask its share, or for all of them together."""
        self._dealt_out = 0
        self.known: Any = None
        """What the next call of `Source.discover` has to be given."""
        self._waiting: list[int] = []
        self._told: set[int] = set()
        """Those who wait and know that there is nothing for them now."""
        self._found: deque[_Found] = deque()
        """What is not read yet, oldest first; only where splits are read one after the other."""
        self.read_until: Any = None
        """What was known when the last of the splits was found that are all read; None before."""
        self._is_discovering = source.discovery_interval_ms is not None
        if self._is_discovering and source.is_bounded:
            raise UserCodeError(f"{type(source).__name__} is bounded, so there can be nothing more to discover in it")

    def start(self) -> None:
        """The job starts from its beginning. Blocks."""
        self._share_out(self._plain(list(self._source.splits(self._parallelism))))
        if self._is_discovering:
            self.discovered(self._source.discover(None))

    def restore(self, data: Any) -> None:
        """The job starts from a snapshot that holds `data`."""
        try:
            state = msgspec.convert(data, type=_State)
        except msgspec.MsgspecError as error:
            raise DamagedError(f"the unassigned splits in the snapshot cannot be read: {error}") from error
        self.known = state.known
        self._share_out(state.splits)
        # Any subtask may have restored a split of any of them.
        everyone = range(self._parallelism)
        self._found.extend(_Found(known, unassigned, set(everyone)) for unassigned, known in state.found or ())
        if state.found == [] and not self._source.in_step:
            # The attempt before may have ended before it told the source.
            self.read_until = state.known

    def snapshot(self) -> dict[str, Any]:
        """What is not assigned yet, and what is known."""
        found = [(entry.unassigned, entry.known) for entry in self._found]
        return {"splits": list(chain.from_iterable(self._unassigned)), "known": self.known, "found": found}

    def assign(self, subtask: int) -> list[tuple[int, Answer]]:
        """A subtask asks. Returned is who is answered now: not always the one who asks, and perhaps others with it."""
        if not 0 <= subtask < self._parallelism:
            raise EngineError(f"subtask {subtask} asks for splits at parallelism {self._parallelism}")
        if subtask not in self._waiting:
            self._waiting.append(subtask)
        self._has_read(subtask)
        return self._answers()

    def discovered(self, found: tuple[Sequence[Split], Any]) -> list[tuple[int, Answer]]:
        """Take in what `Source.discover` gave. Returned are the answers to those who have waited for it."""
        try:
            splits, known = found
        except (TypeError, ValueError):
            raise UserCodeError(
                f"discover() of {type(self._source).__name__} gave {type(found).__name__}; it must give splits and "
                "what is known"
            ) from None
        new, self.known = self._plain([list(splits), known])
        self._share_out(new)
        if new and not self._source.in_step:
            self._found.append(_Found(self.known, len(new), set()))
        return self._answers()

    @property
    def unassigned(self) -> int:
        """How many splits nobody has yet."""
        return sum(map(len, self._unassigned))

    @property
    def is_exhausted(self) -> bool:
        """Whether all splits are assigned and all subtasks have asked for more.

        Where splits are not read in step, they have then read what they had.
        """
        return not any(self._unassigned) and len(self._waiting) == self._parallelism

    @property
    def newest_found(self) -> object:
        """Stands for the splits of all discoveries so far, for `has_read`."""
        return self._found[-1] if self._found else None

    def has_read(self, found: object) -> bool:
        """Whether all splits that `newest_found` stood for are read."""
        return not any(entry is found for entry in self._found)

    def _answers(self) -> list[tuple[int, Answer]]:
        given = {subtask: self._take(subtask) for subtask in self._waiting}
        # Nobody is told that there is no more before everything has an owner: who has heard that may end for good.
        more = self._is_discovering or any(self._unassigned)
        self._waiting = [subtask for subtask in self._waiting if more and not given[subtask]]
        told, self._told = self._told, set(self._waiting)
        return [
            (subtask, {"nothing": True} if subtask in self._told else {"splits": splits, "more": more})
            for subtask, splits in given.items()
            if subtask not in self._told & told
        ]

    def _take(self, subtask: int) -> list[Split]:
        in_step = self._source.in_step
        queue = self._unassigned[subtask if in_step else 0]
        taken = [queue.popleft() for _ in range(len(queue) if in_step else min(1, len(queue)))]
        if taken and (found := next((entry for entry in self._found if entry.unassigned), None)) is not None:
            found.unassigned -= 1
            found.readers.add(subtask)
        return taken

    def _has_read(self, subtask: int) -> None:
        """A subtask that asks has read all it had, unless splits are read in step."""
        for entry in self._found:
            entry.readers.discard(subtask)
        while self._found and not self._found[0].unassigned and not self._found[0].readers:
            self.read_until = self._found.popleft().known

    def _share_out(self, splits: Sequence[Split]) -> None:
        for split in splits:
            self._unassigned[self._dealt_out % len(self._unassigned)].append(split)
            self._dealt_out += 1

    def _plain(self, data: list[Any]) -> list[Any]:
        """What travels and is kept is what every subtask sees, also the one that gets it first."""
        return plain_data(data, f"a split of {type(self._source).__name__}")

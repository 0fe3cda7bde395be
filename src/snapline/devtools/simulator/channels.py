"""A channel between two subtasks: a queue on each side, credits in between, and barriers that may overtake."""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.types import Barrier, BarrierKind

CREDITS = 3
OUTPUT_LIMIT = 4
ITEMS_PER_TRANSFER = 3


class ItemKind(IntEnum):
    """What travels in a channel."""

    DATA = 0
    BARRIER = 1
    CANCEL = 2
    END_OF_DATA = 3
    END_OF_PARTITION = 4


class Record(NamedTuple):
    """One record. `filtered`: it was replayed to several subtasks, and only its owner takes it."""

    id: int
    key: int
    filtered: bool = False


class Item(NamedTuple):
    """Something in a channel's queue; `sequence` is the order of arrival on the receiving side."""

    kind: ItemKind
    value: Any = None
    sequence: int = 0


class Endpoint(Protocol):
    """A subtask, as a channel sees it."""

    process: Process
    has_finished: bool

    def arrive(self, channel: Channel, item: Item) -> None: ...

    def barrier_left(self, channel: Channel, checkpoint_id: int) -> None: ...

    def end_was_read(self) -> None: ...

    def wake(self) -> None: ...


class Channel:
    """From subtask `upstream` to subtask `downstream` of an edge; `index` is its number in the receiver's gate."""

    __slots__ = (
        "_kernel",
        "_scheduled",
        "barrier_sequences",
        "down",
        "downstream",
        "edge",
        "index",
        "input",
        "may_be_unaligned",
        "output",
        "sequence",
        "up",
        "upstream",
    )

    def __init__(self, kernel: Kernel, edge: str, upstream: int, downstream: int, *, may_be_unaligned: bool) -> None:
        self._kernel = kernel
        self._scheduled = False
        self.edge = edge
        self.upstream = upstream
        self.downstream = downstream
        self.may_be_unaligned = may_be_unaligned
        self.index = -1
        self.up: Endpoint | None = None
        self.down: Endpoint | None = None
        self.output: deque[Item] = deque()
        self.input: deque[Item] = deque()
        self.sequence = 0
        self.barrier_sequences: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        return len(self.output) >= OUTPUT_LIMIT

    def send(self, item: Item) -> None:
        self.output.append(item)
        self.pump()

    def send_barrier(self, barrier: Barrier) -> list[Record]:
        """Queue a barrier; an unaligned one goes first, and what it overtakes is returned."""
        if not self.may_be_unaligned:
            barrier = barrier.for_aligned_only_edge()
        if not barrier.is_unaligned:
            self.send(Item(ItemKind.BARRIER, barrier))
            return []
        overtaken = [item.value for item in self.output if item.kind is ItemKind.DATA]
        self.output.appendleft(Item(ItemKind.BARRIER, barrier))
        self.pump()
        return overtaken

    def prioritize_output(self, checkpoint_id: int) -> list[Record]:
        """Let a queued barrier with timeout overtake; the data that was ahead of it is returned."""
        ahead: list[Record] = []
        for position, item in enumerate(self.output):
            if item.kind is ItemKind.BARRIER and item.value.id == checkpoint_id:
                if item.value.kind is not BarrierKind.ALIGNED_WITH_TIMEOUT:
                    return []
                del self.output[position]
                self.output.appendleft(Item(ItemKind.BARRIER, item.value.as_unaligned()))
                self.pump()
                return ahead
            if item.kind is ItemKind.DATA:
                ahead.append(item.value)
        return []

    def take_announced(self, checkpoint_id: int) -> Barrier | None:
        """Take a barrier out of the receiving queue, ahead of the data before it."""
        for position, item in enumerate(self.input):
            if item.kind is ItemKind.BARRIER and item.value.id == checkpoint_id:
                del self.input[position]
                barrier: Barrier = item.value
                return barrier
        return None

    def unread_before_barrier(self, checkpoint_id: int) -> list[Record]:
        """Unread data that arrived ahead of this barrier; all of it where the barrier has not arrived."""
        limit = self.barrier_sequences.get(checkpoint_id)
        return [
            item.value for item in self.input if item.kind is ItemKind.DATA and (limit is None or item.sequence < limit)
        ]

    def pump(self) -> None:
        """Move on what may move: data only as far as there are credits."""
        if self._scheduled or not self.output or self.down is None:
            return
        if self.output[0].kind is ItemKind.DATA and len(self.input) >= CREDITS:
            return
        self._scheduled = True
        kernel = self._kernel
        kernel.after(kernel.between(0, 2), self.down.process, self._transfer)

    def _transfer(self) -> None:
        self._scheduled = False
        up, down = self.up, self.down
        if up is None or down is None or not (up.process.alive or up.has_finished):
            return
        moved = 0
        while self.output and moved < ITEMS_PER_TRANSFER:
            item = self.output[0]
            if item.kind is ItemKind.DATA and len(self.input) >= CREDITS:
                break
            self.output.popleft()
            moved += 1
            self.sequence += 1
            if item.kind is ItemKind.BARRIER:
                self.barrier_sequences[item.value.id] = self.sequence
                up.barrier_left(self, item.value.id)
            down.arrive(self, Item(item.kind, item.value, self.sequence))
        up.wake()
        self.pump()

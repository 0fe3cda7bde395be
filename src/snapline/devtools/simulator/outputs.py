"""The sending side of a subtask: which channel a record goes to, and what was in flight there when it was restored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from snapline.devtools.simulator.channels import Channel, Item, ItemKind, Record
from snapline.devtools.simulator.scenario import MAX_PARALLELISM, SimEdge
from snapline.protocol.restore.restore_plan import ChannelRestore
from snapline.types import Partitioning


class Outputs:
    """The channels subtask number `index` writes to, edge by edge."""

    def __init__(self, edges: Sequence[tuple[SimEdge, list[Channel]]], index: int) -> None:
        self.channels = [channel for _, channels in edges for channel in channels]
        self._edges = edges
        self._round_robin = index
        self._has_restored = False

    @property
    def has_room(self) -> bool:
        return not any(channel.is_full for channel in self.channels)

    def emit(self, record: Record) -> None:
        """Send a record along every edge, as the edge is partitioned."""
        for edge, channels in self._edges:
            for target in self._targets(edge.partitioning, record, len(channels)):
                channels[target].send(Item(ItemKind.DATA, record))

    def _targets(self, partitioning: Partitioning, record: Record, count: int) -> Sequence[int]:
        match partitioning:
            case Partitioning.HASH:
                return (record.key % MAX_PARALLELISM * count // MAX_PARALLELISM,)
            case Partitioning.REBALANCE:
                self._round_robin += 1
                return (self._round_robin % count,)
            case Partitioning.BROADCAST:
                return range(count)
            case _:
                return (0,)

    def send(self, item: Item) -> None:
        """Send something other than data to everyone."""
        for channel in self.channels:
            channel.send(item)

    def restore(self, part: ChannelRestore, records: Iterable[Record]) -> None:
        """Queue what was in flight, ahead of anything that is sent."""
        channels = next(channels for edge, channels in self._edges if edge.id == part.part.edge)
        for record in records:
            for target in part.targets:
                channels[target].output.append(Item(ItemKind.DATA, Record(record.id, record.key, part.filter)))
                self._has_restored = True

    def is_sending_restored(self) -> bool:
        """Whether what was in flight, and what was sent behind it, has not left yet; once it has, never again."""
        if self._has_restored and not any(channel.output for channel in self.channels):
            self._has_restored = False
        return self._has_restored

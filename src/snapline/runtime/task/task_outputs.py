"""The sending side of a subtask: which channel data goes to, and restored in-flight data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

import pyarrow as pa

from snapline.graph.execution_plan import PlannedEdge
from snapline.protocol.restore.restore_plan import ChannelRestore
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.network.partitioners import Partitioner
from snapline.runtime.task.task_meter import TaskMeter
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item


@dataclass(frozen=True, slots=True)
class OutputEdge:
    """An edge a subtask writes to; `channels` are ordered by downstream subtask. A forward edge has a single one."""

    edge: PlannedEdge
    channels: Sequence[OutputChannel]
    partitioner: Partitioner


class TaskOutputs:
    """All channels a subtask writes to, edge by edge. Used by the task's thread only."""

    def __init__(self, edges: Sequence[OutputEdge], meter: TaskMeter) -> None:
        self.channels = [channel for edge in edges for channel in edge.channels]
        self._edges = edges
        self._meter = meter
        self._has_restored = False
        self._random = Random(len(self.channels))  # noqa: S311  # the path of a latency mark is no secret
        self._targets = [{channel.downstream: channel for channel in edge.channels} for edge in edges]

    @property
    def has_room(self) -> bool:
        return not any(channel.is_full for channel in self.channels)

    @property
    def queued_bytes(self) -> int:
        return sum(channel.queued_bytes for channel in self.channels)

    def flush_in_pause(self) -> float | None:
        """The task waits: let go what was held back for merging; for how long to wait at most, if some is too early."""
        early = [seconds for channel in self.channels if (seconds := channel.flush_in_pause()) is not None]
        return min(early, default=None)

    def emit(self, batch: pa.RecordBatch, output: str = "") -> None:
        """Send a batch along every edge of this output, partitioned as the edge demands."""
        if not batch.num_rows:
            return
        for edge, targets in zip(self._edges, self._targets, strict=True):
            if edge.edge.output != output:
                continue
            for target, item in edge.partitioner.split_items(batch):
                self._meter.rows_out += item.value.num_rows
                self._meter.bytes_out += item.size
                targets[target].send(item)

    def send(self, item: Item) -> None:
        """Send an item other than data to all channels."""
        for channel in self.channels:
            channel.send(item)

    def send_latency_mark(self, started_ms: int) -> None:
        """Send a latency mark to one subtask per edge."""
        for edge in self._edges:
            self._random.choice(edge.channels).send(Item(ItemKind.LATENCY, started_ms))

    def restore(self, part: ChannelRestore, batches: Iterable[pa.RecordBatch]) -> None:
        """Queue restored in-flight data. Call it before anything is sent."""
        targets = next(
            targets for edge, targets in zip(self._edges, self._targets, strict=True) if edge.edge.id == part.part.edge
        )
        for batch in batches:
            for target in part.targets:
                targets[target].send(data_item(batch, filtered=part.filter))
                self._has_restored = True

    def is_sending_restored(self) -> bool:
        """Whether restored data, or what was sent behind it, is still queued. Never True again after False."""
        if self._has_restored and all(channel.is_empty for channel in self.channels):
            self._has_restored = False
        return self._has_restored


def end_partitions(outputs: Sequence[OutputEdge]) -> None:
    """End the outputs of a subtask that had finished in the restored snapshot."""
    for edge in outputs:
        for channel in edge.channels:
            channel.send(Item(ItemKind.END_OF_DATA, 0))
            channel.send(Item(ItemKind.END_OF_PARTITION))

"""Restored in-flight data: what is further down a chain comes first."""

from __future__ import annotations

import pyarrow as pa

from snapline.protocol.restore.restore_plan import ChannelRestore, SubtaskRestore
from snapline.protocol.snapshot import ChannelPart, StoredObject
from snapline.runtime.task.restored_inputs import restored_inputs
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader


def stored(objects: MemoryObjects, edge: str, *values: int) -> ChannelRestore:
    """A channel with a batch for each value."""
    sink = pa.BufferOutputStream()
    schema = pa.schema([("x", pa.int64())])
    with pa.ipc.new_stream(sink, schema) as stream:
        for value in values:
            stream.write_batch(pa.record_batch([[value]], schema=schema))
    data = sink.getvalue()
    objects.write(f"/{edge}", data)
    return ChannelRestore(ChannelPart(edge, 0, 0, StoredObject(f"/{edge}", data.size)), filter=False)


def test_operators_further_down_the_chain_come_first() -> None:
    objects = MemoryObjects()
    restore = {
        "b": SubtaskRestore(inputs=(stored(objects, "a->b", 1, 2),)),
        "c": SubtaskRestore(inputs=(stored(objects, "b->c", 3), stored(objects, "b->c#out", 4))),
    }
    found = list(restored_inputs(["a", "b", "c"], restore, None, SnapshotReader(objects)))
    assert [(uid, batch.column(0).to_pylist(), number) for uid, batch, number in found] == [
        ("c", [3], 0),
        ("c", [4], 0),
        ("b", [1], 0),
        ("b", [2], 0),
    ]

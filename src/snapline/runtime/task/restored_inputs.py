"""In-flight data of a checkpoint that a subtask processes again before anything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.runtime.task.input_gate import InputGate
from snapline.state.channel_state import read_channel
from snapline.storage.snapshot_reader import SnapshotReader

RestoredInput: TypeAlias = tuple[str, pa.RecordBatch, int]
"""The uid of the operator that processes it, the rows, and the number of the operator's input."""


def restored_inputs(
    uids: Sequence[str], restore: Mapping[str, SubtaskRestore], gate: InputGate | None, reader: SnapshotReader
) -> Iterator[RestoredInput]:
    """The restored input of a chain, in the order in which to process it.

    An operator inside the chain has some if it was not chained when the checkpoint was taken.
    """
    for uid in reversed(uids):  # what is further down the chain was ahead of the rest
        for part in restore.get(uid, SubtaskRestore()).inputs:
            batches = read_channel(part.part, reader)
            if gate is not None and uid == uids[0]:
                yield from ((uid, batch, number) for number, batch in gate.restored(part, batches))
            else:
                yield from ((uid, batch, 0) for batch in batches)

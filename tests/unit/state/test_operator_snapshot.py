"""What a snapshot of operator state reports, and what it leaves out."""

from __future__ import annotations

from snapline.state.operator_state import OperatorStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_writer import SnapshotWriter


def test_empty_lists_are_left_out_but_union_lists_and_maps_are_reported() -> None:
    states = OperatorStates("op", 0)
    states.list_state("list", bytes)
    states.union_list_state("union", bytes)
    states.broadcast_state("map", str, int)
    target = SnapshotWriter(MemoryObjects(), None, None, attempt=1, checkpoint_id=1, uid="op", subtask=0)
    assert [(part.name, part.elements) for part in states.snapshot().write(target)] == [("union", 0), ("map", 0)]

"""Operator list state at sizes where anything per element would be too much."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from snapline.protocol.restore.restore_plan import RestorePlan, RestoreVertex, SubtaskRestore, plan_restore
from snapline.protocol.snapshot import OperatorState, Snapshot, SubtaskState
from snapline.runtime.wire.control_messages import Deploy, TaskDeployment, decode_to_process, encode
from snapline.state.operator_state import OperatorStates
from snapline.storage import snapshot_metadata
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import ExecutionId, OperatorStateMode, SnapshotKind, SubtaskId

UID = "op"
LOCATION = "memory://job/chk-1"


class Reads(MemoryObjects):
    """Counts reads."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        self.count += 1
        return super().read(path, offset, length)


def snapshot_of(states: Sequence[OperatorStates], objects: MemoryObjects, options: WriteOptions) -> Snapshot:
    """The snapshot as a restart would read it."""
    subtasks = {}
    for index, state in enumerate(states):
        writer = SnapshotWriter(
            objects, LOCATION, None, attempt=1, checkpoint_id=1, uid=UID, subtask=index, options=options
        )
        subtasks[index] = SubtaskState(operator=state.snapshot().write(writer))
    operator = OperatorState(UID, len(states), 128, subtasks)
    made = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, LOCATION, {UID: operator})
    return snapshot_metadata.decode(snapshot_metadata.encode(made), LOCATION)


def deployed(plan: RestorePlan, index: int) -> tuple[SubtaskRestore, int]:
    """What a subtask gets of a plan over the wire, and the size of the message."""
    subtask = SubtaskId("v", index)
    task = TaskDeployment(ExecutionId(subtask, 2), dict(plan.subtasks[subtask]))
    data = encode(Deploy(2, [("", 0)], {"v": 128}, [task], 1, 1))
    received = decode_to_process(data)
    assert isinstance(received, Deploy)
    return received.tasks[0].restore[UID], len(data)


@pytest.mark.slow
def test_ten_million_elements_restore_each_object_read_once() -> None:
    objects, count, old, to = Reads(), 10_000_000, 2, 3
    states = [OperatorStates(UID, index, old) for index in range(old)]
    for index, state in enumerate(states):
        state.list_state("numbers", int).set(range(index * count // old, (index + 1) * count // old))
    snapshot = snapshot_of(states, objects, WriteOptions())
    del states, state
    plan = plan_restore(snapshot, [RestoreVertex("v", to, (UID,))], [])
    position = 0
    for index in range(to):
        restore, size = deployed(plan, index)
        assert size < 2000
        objects.count = 0
        state = OperatorStates(UID, index, to)
        state.restore(restore.operator, SnapshotReader(objects))
        assert objects.count <= old
        numbers = state.list_state("numbers", int).get()
        assert numbers == list(range(position, position + len(numbers)))
        position += len(numbers)
    assert position == count


def test_many_inline_elements_are_sent_once_and_not_once_for_each() -> None:
    state = OperatorStates(UID, 0)
    state.list_state("numbers", int).set(range(12_000))
    snapshot = snapshot_of([state], MemoryObjects(), WriteOptions(inline_bytes=1 << 20))
    inline = sum(item.size_bytes for item in snapshot.objects())
    assert all(item.is_inline for item in snapshot.objects())
    restored: list[int] = []
    for index in range(3):
        restore, size = deployed(plan_restore(snapshot, [RestoreVertex("v", 3, (UID,))], []), index)
        assert size < inline + 1000
        after = OperatorStates(UID, index)
        after.restore(restore.operator, SnapshotReader(MemoryObjects()))
        restored += after.list_state("numbers", int).get()
    assert restored == list(range(12_000))


def test_a_union_list_goes_inline_only_while_all_subtasks_together_can_get_it_from_the_driver() -> None:
    for parallelism, is_inline in ((1, True), (100, True), (2000, False)):
        state = OperatorStates(UID, 0, parallelism)
        state.union_list_state("numbers", int).add(1)
        (item,) = snapshot_of([state], MemoryObjects(), WriteOptions()).objects()
        assert item.is_inline is is_inline
        split = OperatorStates(UID, 0, parallelism)
        split.list_state("numbers", int).add(1)
        (item,) = snapshot_of([split], MemoryObjects(), WriteOptions()).objects()
        assert item.is_inline


def test_the_plan_of_a_union_list_shares_what_all_subtasks_get() -> None:
    states = []
    for index in range(50):
        state = OperatorStates(UID, index, 50)
        state.union_list_state("numbers", int).add(index)
        states.append(state)
    snapshot = snapshot_of(states, MemoryObjects(), WriteOptions())
    part = snapshot.operators[UID].subtasks[0].operator[0]
    assert part.mode is OperatorStateMode.UNION
    plan = plan_restore(snapshot, [RestoreVertex("v", 50, (UID,))], [])
    shares = {id(mine[UID].operator["numbers"]) for mine in plan.subtasks.values()}
    assert len(shares) == 1

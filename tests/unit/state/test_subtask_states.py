"""All state of an operator in a subtask: its two-part snapshot and its restore."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from snapline.errors import StorageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.restore.restore_plan import KeyedRestore, SubtaskRestore
from snapline.protocol.snapshot import SubtaskState
from snapline.state.channel_state import ChannelParts
from snapline.state.memory_backend import MemoryBackend
from snapline.state.operator_state import OperatorStates
from snapline.state.raw_keyed_state import RawKeyedState
from snapline.state.subtask_states import SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotCancelledError, SnapshotWriter

ALL = KeyGroupRange(0, 7)


def keyed_states() -> SubtaskStates:
    backend = MemoryBackend("bigint", max_parallelism=8, key_groups=ALL, clock=lambda: 0, uid="op")
    return SubtaskStates(OperatorStates("op", 0), backend, RawKeyedState("op", ALL, 8))


def target(objects: MemoryObjects) -> SnapshotWriter:
    return SnapshotWriter(objects, "memory://j/chk-1", None, attempt=1, checkpoint_id=1, uid="op", subtask=0)


def as_restore(state: SubtaskState) -> SubtaskRestore:
    elements = {part.name: (ElementRange(part.object, 0, part.elements),) for part in state.operator}
    return SubtaskRestore(tuple(KeyedRestore(part, part.key_groups) for part in state.keyed), elements)


def test_state_of_all_kinds_comes_back() -> None:
    states, objects = keyed_states(), MemoryObjects()
    assert states.keyed is not None
    assert states.raw_keyed is not None
    states.keyed.value_state("n", "bigint").put([1, 2], [10, 20])
    states.raw_keyed.write(3, b"raw")
    states.operator.list_state("offsets", int).extend([5, 6])
    written = states.snapshot(ended=True).write(target(objects))
    assert written.state.ended
    assert [part.raw for part in written.state.keyed] == [False, True]
    assert written.new_bytes == written.state_bytes > 0
    restored = keyed_states()
    restored.restore(as_restore(written.state), SnapshotReader(objects))
    assert restored.keyed is not None
    assert restored.raw_keyed is not None
    assert restored.keyed.value_state("n", "bigint").take([1, 2]).to_pylist() == [10, 20]
    assert restored.raw_keyed.read() == [(3, b"raw")]
    assert restored.operator.list_state("offsets", int).get() == [5, 6]
    restored.confirm(1)
    restored.abort(2)
    restored.close()


def test_an_operator_without_keys_has_operator_state_alone() -> None:
    states = SubtaskStates(OperatorStates("op", 0))
    states.confirm(1)
    states.abort(1)
    states.restore(SubtaskRestore((), {}), SnapshotReader(MemoryObjects()))
    states.operator.list_state("offsets", int).add(1)
    written = states.snapshot().write(target(MemoryObjects()))
    assert written.state.keyed == ()
    assert len(written.state.operator) == 1
    states.close()


def test_nothing_is_left_of_a_snapshot_that_fails() -> None:
    states, objects = keyed_states(), MemoryObjects()
    assert states.keyed is not None
    states.keyed.value_state("n", "bigint").put([1], [10])
    channels: Future[ChannelParts] = Future()
    channels.set_exception(StorageError("no disk"))
    with pytest.raises(StorageError, match="no disk"):
        states.snapshot().write(target(objects), channels)
    assert list(objects.list("memory://j")) == []
    cancelled = target(objects)
    cancelled.cancel()
    with pytest.raises(SnapshotCancelledError):
        states.snapshot().write(cancelled)
    assert list(objects.list("memory://j")) == []

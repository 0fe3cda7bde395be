"""Large elements: which of them a snapshot writes, and which it only refers to."""

from __future__ import annotations

from snapline.protocol.restore.redistribution import ElementRange
from snapline.protocol.snapshot import OperatorPart
from snapline.state.large_elements import LARGE_BYTES, runs
from snapline.state.operator_state import OperatorStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.storage.snapshot_writer import SnapshotWriter

A, B = b"a" * LARGE_BYTES, b"b" * (LARGE_BYTES + 1)
JOB = "memory://job"


class Subtask:
    """A subtask with one list, and its checkpoints."""

    def __init__(self, objects: MemoryObjects | None = None) -> None:
        self.objects = objects or MemoryObjects()
        self.states = OperatorStates("op", 0)
        self.list = self.states.list_state("kept", bytes)

    def checkpoint(
        self, number: int, *, alone: bool = False, shared: str | None = f"{JOB}/shared"
    ) -> list[OperatorPart]:
        target = SnapshotWriter(
            self.objects, f"{JOB}/chk-{number}", shared, attempt=1, checkpoint_id=number, uid="op", subtask=0
        )
        return list(self.states.snapshot(alone=alone).write(target))

    def restored(self, parts: list[OperatorPart]) -> list[bytes]:
        after = OperatorStates("op", 0)
        ranges = tuple(ElementRange(part.object, 0, part.elements) for part in parts)
        after.restore({"kept": ranges} if ranges else {}, SnapshotReader(self.objects))
        return after.list_state("kept", bytes).get()


def new(parts: list[OperatorPart]) -> list[bool]:
    return [not part.object.reused for part in parts]


def test_each_large_element_is_alone() -> None:
    assert list(runs([])) == []
    assert list(runs([b"x", b"y", A, B, b"z"])) == [[b"x", b"y"], [A], [B], [b"z"]]


def test_the_order_stays() -> None:
    it = Subtask()
    it.list.set([b"x", A, b"", b"y", B])
    parts = it.checkpoint(1)
    assert [part.elements for part in parts] == [1, 1, 2, 1]
    assert it.restored(parts) == [b"x", A, b"", b"y", B]


def test_an_element_is_written_once_and_then_referred_to() -> None:
    it = Subtask()
    it.list.set([A, b"x"])
    first = it.checkpoint(1)
    it.states.confirm(1)
    it.list.set([A, b"x", B])
    second = it.checkpoint(2)
    assert new(first) == [True, True]
    assert new(second) == [False, True, True]
    assert second[0].object.path == first[0].object.path
    assert it.restored(second) == [A, b"x", B]
    it.states.confirm(2)
    it.list.set([B])
    assert new(it.checkpoint(3)) == [False]


def test_only_what_a_complete_checkpoint_holds_is_referred_to() -> None:
    it = Subtask()
    it.list.set([A])
    it.checkpoint(1)
    assert new(it.checkpoint(2)) == [True], "checkpoint 1 may never complete"
    it.states.abort(1)
    it.states.abort(2)
    assert new(it.checkpoint(3)) == [True]
    it.states.confirm(3)
    assert new(it.checkpoint(4)) == [False]
    it.list.set([])
    it.checkpoint(5)
    it.states.confirm(5)
    it.list.set([A])
    assert new(it.checkpoint(6)) == [True], "nothing holds it any more"


def test_an_element_that_comes_back_is_written_again() -> None:
    """Checkpoint 2 completes after the snapshot of checkpoint 3, and deletes what only checkpoint 1 had."""
    it = Subtask()
    it.list.set([A])
    it.checkpoint(1)
    it.states.confirm(1)
    it.list.set([])
    it.checkpoint(2)
    it.list.set([A])
    assert new(it.checkpoint(3)) == [True]


def test_savepoints_and_checkpoints_that_stand_alone_refer_to_nothing_older() -> None:
    it = Subtask()
    it.list.set([A])
    it.checkpoint(1)
    it.states.confirm(1)
    assert new(it.checkpoint(2, alone=True)) == [True]
    savepoint = it.checkpoint(3, alone=True, shared=None)
    assert savepoint[0].object.shared_key is None
    assert it.restored(savepoint) == [A]


def test_an_equal_element_is_another_one() -> None:
    it = Subtask()
    it.list.set([A])
    it.checkpoint(1)
    it.states.confirm(1)
    it.list.set([bytes(bytearray(A))])
    assert new(it.checkpoint(2)) == [True]

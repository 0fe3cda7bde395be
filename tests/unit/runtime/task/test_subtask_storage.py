"""Where the snapshots of a subtask go, and where those it starts from come from."""

from __future__ import annotations

from pathlib import Path

from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_writer import WriteOptions
from snapline.types import NO_CHECKPOINT, Barrier, ExecutionId, SnapshotKind, SubtaskId

OPTIONS = WriteOptions(inline_bytes=0)


def storage(objects: MemoryObjects, local: Path | None = None, *, vertex: str = "v", index: int = 1) -> SubtaskStorage:
    return SubtaskStorage(objects, ExecutionId(SubtaskId(vertex, index), 3), "shared", OPTIONS, local)


def test_objects_of_a_checkpoint_go_to_its_place_and_are_read_back() -> None:
    objects = MemoryObjects()
    stored = storage(objects).writer("op", Barrier(7, 0, location="chk-7")).write("state", b"data" * 100)
    assert stored.path.startswith("chk-7/")
    assert storage(objects).reader(7).read(stored) == b"data" * 100


def test_without_a_place_everything_travels_with_the_acknowledgement() -> None:
    objects = MemoryObjects()
    stored = storage(objects).writer("op", Barrier(7, 0)).write("state", b"data")
    assert stored.data == b"data"
    assert stored.path.startswith("inline:")


def test_copies_on_this_machine_are_of_checkpoints_only(tmp_path: Path) -> None:
    kept = storage(MemoryObjects(), tmp_path)
    kept.writer("op", Barrier(8, 0, snapshot=SnapshotKind.SAVEPOINT, location="sp")).write("state", b"data" * 100)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    kept.writer("op", Barrier(7, 0, location="chk-7")).write("state", b"data" * 100)
    assert [path for path in tmp_path.rglob("*") if path.is_file()]


def test_subtasks_do_not_share_their_copies(tmp_path: Path) -> None:
    for vertex, index in (("v", 1), ("v", 2), ("w/../v", 1)):
        storage(MemoryObjects(), tmp_path, vertex=vertex, index=index).writer(
            "op", Barrier(7, 0, location="chk-7")
        ).write("state", b"data" * 100)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3


def test_a_fresh_start_forgets_all_copies(tmp_path: Path) -> None:
    kept = storage(MemoryObjects(), tmp_path)
    kept.writer("op", Barrier(7, 0, location="chk-7")).write("state", b"data" * 100)
    kept.completed(7)
    storage(MemoryObjects(), tmp_path).reader(NO_CHECKPOINT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_copies_the_ends_of_checkpoints_change_nothing() -> None:
    kept = storage(MemoryObjects())
    kept.completed(7)
    kept.aborted(8)

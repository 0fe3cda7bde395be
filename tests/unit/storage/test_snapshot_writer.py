"""`SnapshotWriter`: names, slices, inline objects, sharing and cancelling."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.errors import StorageError
from snapline.protocol.snapshot import StoredObject
from snapline.storage.local_copies import LocalCopies
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import Bytes
from snapline.storage.snapshot_writer import (
    MEMORY_LIMIT_BYTES,
    SnapshotCancelledError,
    SnapshotWriter,
    WriteOptions,
    attempt_of,
    file_crc32,
)

LOCATION = "memory://job/chk-3"
SHARED = "memory://job/shared"


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def make_writer(objects: MemoryObjects, **changes: Any) -> SnapshotWriter:
    settings: dict[str, Any] = {
        "location": LOCATION,
        "shared": SHARED,
        "attempt": 7,
        "checkpoint_id": 3,
        "uid": "my op",
        "subtask": 2,
        "options": WriteOptions(inline_bytes=10),
    }
    return SnapshotWriter(objects, **(settings | changes))


def test_an_object_goes_into_a_file_of_its_own(objects: MemoryObjects) -> None:
    item = make_writer(objects).write("some-state", b"0123456789")
    assert item == StoredObject(f"{LOCATION}/a7-my%20op-2-some%2Dstate", 10)
    assert item.crc32 == zlib.crc32(b"0123456789")
    assert item.shared_key is None
    assert objects.read(item.path) == b"0123456789"


def test_a_small_object_goes_into_the_metadata(objects: MemoryObjects) -> None:
    item = make_writer(objects).write("s", b"012345678")
    assert item.is_inline
    assert (item.data, item.size_bytes, item.crc32) == (b"012345678", 9, zlib.crc32(b"012345678"))
    assert item.path.startswith("inline:")
    assert objects.list("memory://job") == []


def test_slices_follow_one_another_in_one_file(objects: MemoryObjects) -> None:
    pieces: list[Bytes] = [b"abc", b"", memoryview(b"defghij"), bytearray(b"k")]
    items = make_writer(objects).write_slices("s", pieces)
    assert [(item.offset, item.size_bytes) for item in items] == [(0, 3), (3, 0), (3, 7), (10, 1)]
    assert len({item.path for item in items}) == 1
    for item, piece in zip(items, pieces, strict=True):
        assert objects.read(item.path, item.offset, item.size_bytes) == piece
        assert item.crc32 == zlib.crc32(piece)


def test_slices_that_are_small_together_are_all_inline(objects: MemoryObjects) -> None:
    first, second = make_writer(objects).write_slices("s", [b"abcd", b"efghi"])
    assert (first.data, second.data) == (b"abcd", b"efghi")
    assert first.path != second.path
    assert not any(item.is_inline for item in make_writer(objects).write_slices("s", [b"abcde", b"efghi"]))


def test_without_a_location_everything_is_inline_up_to_a_limit(objects: MemoryObjects, tmp_path: Path) -> None:
    nowhere = make_writer(objects, location=None, shared=None)
    assert nowhere.write("s", bytes(MEMORY_LIMIT_BYTES)).is_inline
    with pytest.raises(StorageError, match=r"'s' of my op\[2\] has 5242881 bytes.*Set `storage` to a directory"):
        nowhere.write("s", bytes(MEMORY_LIMIT_BYTES + 1))
    with pytest.raises(StorageError, match="has 5242881 bytes"):
        nowhere.write_slices("s", [bytes(MEMORY_LIMIT_BYTES), b"x"])
    source = tmp_path / "file"
    source.write_bytes(b"x" * 100)
    assert nowhere.share("f", source).data == b"x" * 100
    source.write_bytes(bytes(MEMORY_LIMIT_BYTES + 1))
    with pytest.raises(StorageError, match="has 5242881 bytes"):
        nowhere.share("f", source)


def test_a_shared_file_can_be_referred_to_later(objects: MemoryObjects, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    shared = make_writer(objects).share("000001.sst", source)
    assert shared.shared_key == "a7-my%20op-2-000001.sst"
    assert shared.path == f"{SHARED}/{shared.shared_key}"
    assert shared.crc32 == zlib.crc32(b"sst")
    assert not shared.reused
    later = make_writer(objects, checkpoint_id=4, location="memory://job/chk-4")
    reused = later.reuse(shared, source)
    assert reused == shared
    assert reused.reused
    assert later.written == []


def test_shared_data_can_be_referred_to_later(objects: MemoryObjects, tmp_path: Path) -> None:
    local = LocalCopies(tmp_path / "copies")
    shared = make_writer(objects).share_data("rows", memoryview(b"012"))
    assert shared.path == f"{SHARED}/{shared.shared_key}"
    assert objects.read(shared.path, 0, shared.size_bytes) == b"012"
    assert (shared.size_bytes, shared.crc32, shared.reused) == (3, zlib.crc32(b"012"), False)
    later = make_writer(objects, checkpoint_id=4, location="memory://job/chk-4", local=local)
    reused = later.reuse(shared)
    assert (reused, reused.reused, later.written) == (shared, True, [])
    assert local.find(4, shared.path) is None
    savepoint = make_writer(objects, shared=None).share_data("rows", b"0123456789")
    assert savepoint.shared_key is None
    assert savepoint.path.startswith(LOCATION)


def test_a_savepoint_shares_nothing(objects: MemoryObjects, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    item = make_writer(objects, shared=None).share("000001.sst", source)
    assert item.shared_key is None
    assert item.path.startswith(LOCATION)


def test_copies_are_kept_of_files_alone(objects: MemoryObjects, tmp_path: Path) -> None:
    local = LocalCopies(tmp_path / "copies")
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    writer = make_writer(objects, local=local)
    items = [*writer.write_slices("s", [b"0123456789", b"abc"]), writer.share("000001.sst", source)]
    items.append(writer.reuse(StoredObject("memory://job/shared/old", 3), source))
    expected = [b"0123456789abc", b"0123456789abc", b"sst", b"sst"]
    for item, data in zip(items, expected, strict=True):
        copy = local.find(3, item.path)
        assert copy is not None
        assert copy.read_bytes() == data
    inline = writer.write("t", b"x")
    assert local.find(3, inline.path) is None


def test_nothing_is_written_after_cancelling(objects: MemoryObjects, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    writer = make_writer(objects)
    writer.check()
    writer.cancel()
    item = StoredObject("memory://job/shared/old", 3)
    uses: list[Callable[[], object]] = [
        writer.check,
        lambda: writer.write("s", b"x" * 100),
        lambda: writer.write_slices("s", []),
        lambda: writer.share("f", source),
        lambda: writer.reuse(item, source),
    ]
    for use in uses:
        with pytest.raises(SnapshotCancelledError, match=r"snapshot 3 of my op\[2\] was cancelled"):
            use()
    assert objects.list("memory://job") == []


def test_what_was_written_can_be_discarded(objects: MemoryObjects, tmp_path: Path) -> None:
    source = tmp_path / "000001.sst"
    source.write_bytes(b"sst")
    objects.write("memory://job/shared/old", b"old")
    writer = make_writer(objects)
    writer.write("s", b"x" * 100)
    writer.share("f", source)
    writer.reuse(StoredObject("memory://job/shared/old", 3), source)
    writer.cancel()
    writer.discard()
    assert [info.path for info in objects.list("memory://job")] == ["memory://job/shared/old"]


def test_a_write_that_failed_is_discarded_as_well(objects: MemoryObjects) -> None:
    small = MemoryObjects(limit_bytes=50)
    writer = make_writer(small)
    with pytest.raises(StorageError, match="limit"):
        writer.write("s", b"x" * 100)
    assert len(writer.written) == 1
    writer.discard()


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("./-%~ _a", max_size=8)


def path_of(uid: str, subtask: int, name: str, attempt: int = 1) -> str:
    return (
        make_writer(MemoryObjects(), uid=uid, subtask=subtask, attempt=attempt, options=WriteOptions(inline_bytes=0))
        .write(name, b"")
        .path
    )


@given(st.tuples(names, st.integers(0, 20), names), st.tuples(names, st.integers(0, 20), names))
def test_different_names_give_different_file_names(one: tuple[str, int, str], other: tuple[str, int, str]) -> None:
    assert (path_of(*one) == path_of(*other)) == (one == other)


@given(names, names)
def test_a_file_name_is_one_plain_name(uid: str, name: str) -> None:
    path = path_of(uid, 1, name, attempt=12)
    file_name = path.removeprefix(f"{LOCATION}/")
    assert set(file_name).isdisjoint("/\\:?*\n\0 ")
    assert file_name.isascii()
    assert attempt_of(path) == 12


@pytest.mark.parametrize("letter", ["x", "ä", "字", "-", "😀"])
def test_long_names_fit_a_file_system_and_stay_different(letter: str) -> None:
    variants = [(letter * length) for length in (10, 33, 34, 50, 51, 99, 100, 101, 1000, 1001)]
    variants += [letter * 1000 + "a", "a" + letter * 1000]
    paths = {path_of(one, 2**31, other) for one in variants for other in variants}
    assert len(paths) == len(variants) ** 2
    assert max(len(path.removeprefix(f"{LOCATION}/")) for path in paths) <= 255
    assert path_of(letter * 1000, 1, "s") == path_of(letter * 1000, 1, "s")


def test_a_name_cannot_pretend_to_be_a_shortened_one() -> None:
    shortened = path_of("x" * 1000, 1, "s").removeprefix(f"{LOCATION}/a1-").removesuffix("-1-s")
    assert path_of(shortened, 1, "s") != path_of("x" * 1000, 1, "s")


@pytest.mark.parametrize(
    ("path", "attempt"),
    [("s3://b/chk-1/a12-op-0-s", 12), ("a3-", 3), ("s3://b/a12-x/op", None), ("_metadata", None), ("a-1", None)],
)
def test_the_attempt_is_in_the_name(path: str, attempt: int | None) -> None:
    assert attempt_of(path) == attempt


def test_the_checksum_of_a_large_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    (tmp_path / "file").write_bytes(data)
    assert file_crc32(tmp_path / "file") == zlib.crc32(data)

"""The contract of object stores, as one suite over all of them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Lock, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from snapline.errors import ObjectNotFoundError, StorageError
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectInfo, ObjectStore
from snapline.storage.objects.remote_backends import PART_BYTES, HdfsBackend

LOCAL = ("directory", "file_url")
IN_PROCESS = ("memory_url", "memory_objects", "hdfs_stand_in")
S3 = pytest.param("s3", marks=pytest.mark.slow)
LARGE_BYTES = 2 * PART_BYTES + (1 << 20)

AWKWARD_NAMES = [
    "with space",
    "per%20cent%",
    "plus+plus",
    "ünï-日本語-🙂",
    "hash#question?equals=",
    "star*[ab]?",
    "quote'\"&<>",
    "back\\slash",
    ".hidden",
    "~tilde",
    "a:b",
]


class Place:
    """A store, and an unused path in it."""

    def __init__(self, objects: ObjectStore, root: str) -> None:
        self.objects = objects
        self.root = root

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


@pytest.fixture(scope="module")
def s3_objects(s3_options: dict[str, Any]) -> FileObjects:
    """One for all tests: creating an S3 client is slow."""
    return FileObjects(options={"s3": s3_options})


@pytest.fixture(params=[*LOCAL, *IN_PROCESS, S3])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    kind = request.param
    if kind == "s3":
        yield Place(request.getfixturevalue("s3_objects"), request.getfixturevalue("s3_root"))
    elif kind == "directory":
        yield Place(FileObjects(), str(tmp_path / "store"))
    elif kind == "file_url":
        yield Place(FileObjects(), f"file://{tmp_path}/store")
    elif kind == "memory_url":
        place = Place(FileObjects(), f"memory://{uuid.uuid4().hex}")
        yield place
        place.objects.delete_tree(place.root)
    elif kind == "hdfs_stand_in":
        (tmp_path / "hdfs").mkdir()
        monkeypatch.setattr(HdfsBackend, "_connect", lambda *_: HdfsStandIn(tmp_path / "hdfs"))
        yield Place(FileObjects(), "hdfs://namenode:8020/store")
    else:
        yield Place(MemoryObjects(), "memory://store")


class HdfsStandIn:
    """Local files that move as in HDFS through pyarrow, according to the source code of both.

    HDFS renames into an existing directory, and refuses to replace a file; pyarrow then deletes the file and renames
    again. The name node does one rename at a time.
    """

    def __init__(self, directory: Path) -> None:
        self._fs = pafs.SubTreeFileSystem(str(directory), pafs.LocalFileSystem())
        self._directory = directory
        self._name_node = Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def open_input_file(self, path: str) -> Any:
        if self._real(path).is_dir():
            raise FileNotFoundError(errno.ENOENT, "Path is not a file", path)
        return self._fs.open_input_file(path)

    def get_file_info(self, selector: pafs.FileSelector) -> list[SimpleNamespace]:
        found = self._fs.get_file_info(selector)
        return [SimpleNamespace(path=f"/{info.path}", type=info.type, size=info.size) for info in found]

    def move(self, source: str, target: str) -> None:
        try:
            self._rename(source, target)
        except OSError:
            if not (self._real(source).is_file() and self._real(target).is_file()):
                raise
            self._real(target).unlink()
            self._rename(source, target)

    def _rename(self, source: str, target: str) -> None:
        with self._name_node:
            actual = self._real(target)
            actual = actual / self._real(source).name if actual.is_dir() else actual
            if actual.exists() or not self._real(source).exists():
                raise OSError(errno.EIO, "HDFS rename failed")
            self._real(source).rename(actual)

    def _real(self, path: str) -> Path:
        return self._directory / path.removeprefix("/")


def some_bytes(size_bytes: int) -> bytes:
    return (bytes(range(251)) * (size_bytes // 251 + 1))[:size_bytes]


def test_create_makes_an_object_only_once(place: Place) -> None:
    path = place.path("jobs/7/attempt-1")
    assert place.objects.create(path, b"first")
    assert not place.objects.create(path, b"second")
    assert place.objects.read(path) == b"first"
    place.objects.delete([path])
    assert place.objects.create(path, b"third")
    assert place.objects.read(path) == b"third"


def test_write_replaces_the_whole_object(place: Place) -> None:
    path = place.path("object")
    place.objects.write(path, b"a long first version")
    place.objects.write(path, b"short")
    assert place.objects.read(path) == b"short"
    assert not place.objects.create(path, b"other")
    assert place.objects.size_bytes(path) == 5


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_all_kinds_of_bytes_are_taken(place: Place, kind: type[bytes] | type[bytearray] | type[memoryview]) -> None:
    data = kind(b"snapshot")
    place.objects.write(place.path("written"), data)
    assert place.objects.create(place.path("created"), data)
    assert place.objects.read(place.path("written")) == place.objects.read(place.path("created")) == b"snapshot"


def test_a_buffer_of_wide_items_is_taken_as_its_bytes(place: Place) -> None:
    buffer = pa.array([1, 2, 3], pa.int64()).buffers()[1]
    data = memoryview(buffer).cast("b").cast("q")
    place.objects.write(place.path("wide"), data)
    assert place.objects.read(place.path("wide")) == data.tobytes()


def test_an_empty_object_is_an_object(place: Place) -> None:
    path = place.path("empty")
    assert place.objects.create(path, b"")
    assert not place.objects.create(path, b"")
    assert place.objects.size_bytes(path) == 0
    assert place.objects.read(path) == place.objects.read(path, 0, 10) == place.objects.read(path, 5) == b""
    with place.objects.open(path) as file:
        assert file.read() == b""
    assert place.objects.list(place.root) == [ObjectInfo(path, 0)]


def test_a_range_is_what_there_is_of_it(place: Place) -> None:
    path = place.path("ranges")
    place.objects.write(path, b"0123456789")
    assert place.objects.read(path, 3) == b"3456789"
    assert place.objects.read(path, 3, 4) == b"3456"
    assert place.objects.read(path, 0, 4) == b"0123"
    assert place.objects.read(path, 8, 100) == place.objects.read(path, 8, 1 << 60) == b"89"
    assert place.objects.read(path, 10) == place.objects.read(path, 10, 5) == place.objects.read(path, 99) == b""
    assert place.objects.read(path, 3, 0) == b""


def test_an_open_object_can_be_read_in_any_order(place: Place) -> None:
    path = place.path("opened")
    data = some_bytes(3_000_000)
    place.objects.write(path, data)
    with place.objects.open(path) as file:
        assert file.seekable()
        assert file.readable()
        assert file.read(10) == data[:10]
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.read() == data[-5:]
        assert file.seek(1_500_000) == 1_500_000
        assert file.read(1_400_000) == data[1_500_000:2_900_000]
        assert file.tell() == 2_900_000
        file.seek(len(data) + 10)
        assert file.read(1) == b""
        file.seek(0)
        assert file.read() == data


def test_two_open_files_of_one_object_do_not_share_a_position(place: Place) -> None:
    place.objects.write(place.path("shared"), b"abc")
    with place.objects.open(place.path("shared")) as one, place.objects.open(place.path("shared")) as two:
        assert one.read(2) == b"ab"
        assert two.read(2) == b"ab"


def test_parquet_reads_from_an_open_object(place: Place, tmp_path: Path) -> None:
    table = pa.table({"key": list(range(10_000)), "value": [f"v{n}" for n in range(10_000)]})
    pq.write_table(table, tmp_path / "local.parquet", row_group_size=1_000)
    place.objects.upload(tmp_path / "local.parquet", place.path("table.parquet"))
    with place.objects.open(place.path("table.parquet")) as file:
        parquet = pq.ParquetFile(file)
        assert parquet.read_row_group(7).column("key").to_pylist() == list(range(7_000, 8_000))
        assert parquet.read().equals(table)


def test_files_go_up_and_come_down(place: Place, tmp_path: Path) -> None:
    data = some_bytes(200_000)
    (tmp_path / "source").write_bytes(data)
    place.objects.upload(tmp_path / "source", place.path("deep/copy"))
    place.objects.download(place.path("deep/copy"), tmp_path / "new" / "target")
    assert (tmp_path / "new" / "target").read_bytes() == data
    place.objects.write(place.path("deep/copy"), b"other")
    place.objects.download(place.path("deep/copy"), tmp_path / "new" / "target")
    assert (tmp_path / "new" / "target").read_bytes() == b"other"
    assert os.listdir(tmp_path / "new") == ["target"]


def test_nothing_is_left_where_a_download_failed(place: Place, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    with pytest.raises(ObjectNotFoundError):
        place.objects.download(place.path("missing"), tmp_path / "new" / "target")
    assert os.listdir(tmp_path / "new") == []
    place.objects.write(place.path("there"), b"data")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*target") as raised:
        place.objects.download(place.path("there"), tmp_path / "file" / "target")
    assert not isinstance(raised.value, ObjectNotFoundError)


def test_an_upload_needs_its_source(place: Place, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="check the source") as raised:
        place.objects.upload(tmp_path / "missing", place.path("copy"))
    assert not isinstance(raised.value, ObjectNotFoundError)
    assert place.objects.list(place.root) == []


def test_large_objects_are_whole(place: Place, tmp_path: Path) -> None:
    data = some_bytes(LARGE_BYTES)
    assert place.objects.create(place.path("large/created"), data)
    assert not place.objects.create(place.path("large/created"), data[::-1])
    assert place.objects.read(place.path("large/created")) == data
    place.objects.write(place.path("large/written"), data)
    (tmp_path / "source").write_bytes(data)
    place.objects.upload(tmp_path / "source", place.path("large/uploaded"))
    place.objects.download(place.path("large/uploaded"), tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == data
    assert [info.size_bytes for info in place.objects.list(place.path("large"))] == [LARGE_BYTES] * 3
    assert place.objects.read(place.path("large/written"), PART_BYTES - 3, 6) == data[PART_BYTES - 3 : PART_BYTES + 3]


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_awkward_names_are_taken_as_they_are(place: Place, name: str) -> None:
    path = place.path(f"dir {name}/{name}")
    other = place.path("dir a/a")
    place.objects.write(other, b"other")
    assert place.objects.create(path, name.encode())
    assert not place.objects.create(path, b"")
    assert place.objects.read(path, 0, 1000) == name.encode()
    assert place.objects.size_bytes(path) == len(name.encode())
    assert place.objects.list(place.path(f"dir {name}")) == [ObjectInfo(path, len(name.encode()))]
    assert path in {info.path for info in place.objects.list(place.root)}
    place.objects.delete([path])
    assert place.objects.list(place.root) == [ObjectInfo(other, 5)]
    place.objects.write(path, b"again")
    place.objects.delete_tree(place.path(f"dir {name}"))
    assert place.objects.list(place.root) == [ObjectInfo(other, 5)]


def test_a_list_is_deep_sorted_and_of_this_directory_only(place: Place) -> None:
    for name in ("a/2", "a/10", "a/b/c/d", "a/b.x", "ab/1", "a-/1"):
        place.objects.write(place.path(name), name.encode())
    expected = [ObjectInfo(place.path(name), len(name)) for name in ("a/10", "a/2", "a/b.x", "a/b/c/d")]
    assert place.objects.list(place.path("a")) == expected
    assert place.objects.list(place.path("a/")) == expected
    assert len(place.objects.list(place.root)) == 6
    assert place.objects.list(place.path("missing")) == []
    assert place.objects.list(place.path("a/2")) == []


def test_a_list_sees_what_another_store_wrote_meanwhile(
    place: Place, request: pytest.FixtureRequest, s3_options_if_needed: dict[str, Any]
) -> None:
    if isinstance(place.objects, MemoryObjects):
        other: ObjectStore = place.objects
    else:
        other = FileObjects(options=s3_options_if_needed)
    assert place.objects.list(place.root) == []
    assert place.objects.size_bytes(place.path("dir/1")) is None
    other.write(place.path("dir/1"), b"1")
    assert place.objects.list(place.root) == [ObjectInfo(place.path("dir/1"), 1)]
    other.write(place.path("dir/2"), b"22")
    other.write(place.path("dir/1"), b"111")
    assert [info.size_bytes for info in place.objects.list(place.path("dir"))] == [3, 2]
    assert place.objects.size_bytes(place.path("dir/1")) == 3


@pytest.fixture
def s3_options_if_needed(request: pytest.FixtureRequest, place: Place) -> dict[str, Any]:
    return {"s3": request.getfixturevalue("s3_options")} if place.root.startswith("s3:") else {}


def test_what_is_not_there_is_said_so(place: Place) -> None:
    place.objects.write(place.path("dir/object"), b"data")
    for missing in (place.path("missing"), place.path("missing/too"), place.path("dir")):
        assert place.objects.size_bytes(missing) is None
        for read in (
            lambda path=missing: place.objects.read(path),
            lambda path=missing: place.objects.read(path, 1, 2),
            lambda path=missing: place.objects.read(path, 1, 0),
            lambda path=missing: place.objects.open(path),
        ):
            with pytest.raises(ObjectNotFoundError, match="no object at") as raised:
                read()
            assert raised.value.path == missing


def test_delete_is_idempotent_and_takes_many(place: Place) -> None:
    paths = [place.path(f"many/{number:04}") for number in range(25)]
    for path in paths:
        place.objects.write(path, b"x")
    kept = place.path("many-not/0")
    place.objects.write(kept, b"x")
    place.objects.delete(iter([*paths, place.path("missing"), place.path("many/missing/deep")]))
    assert place.objects.list(place.root) == [ObjectInfo(kept, 1)]
    place.objects.delete(paths)
    place.objects.delete([])
    assert place.objects.read(kept) == b"x"


def test_delete_tree_takes_all_below_and_nothing_else(place: Place) -> None:
    for name in ("tree/1", "tree/a/b/2", "tree2/1", "other/tree/1"):
        place.objects.write(place.path(name), b"x")
    place.objects.delete_tree(place.path("tree"))
    place.objects.delete_tree(place.path("tree"))
    place.objects.delete_tree(place.path("missing"))
    assert [info.path for info in place.objects.list(place.root)] == [place.path("other/tree/1"), place.path("tree2/1")]


def test_of_many_threads_one_creates(place: Place) -> None:
    for number, size_bytes in enumerate((10, 100_000, 100_000)):
        path = place.path(f"race-{number}")
        barrier = Barrier(16)

        def create(contender: int, path: str = path, size: int = size_bytes, barrier: Barrier = barrier) -> bool:
            barrier.wait()
            return place.objects.create(path, bytes([contender]) * size)

        with ThreadPoolExecutor(16) as pool:
            won = list(pool.map(create, range(16)))
        assert won.count(True) == 1
        assert place.objects.read(path) == bytes([won.index(True)]) * size_bytes
        assert [info.path for info in place.objects.list(place.root)] == [
            place.path(f"race-{n}") for n in range(number + 1)
        ]


# Not on HDFS: pyarrow deletes the old object before it renames the new one.
@pytest.mark.parametrize("place", [*LOCAL, "memory_url", "memory_objects", S3], indirect=True)
def test_readers_never_see_a_part_of_an_object(place: Place) -> None:
    path = place.path("contended")
    place.objects.write(path, b"\0" * 300_000)

    def write(number: int) -> None:
        place.objects.write(path, bytes([number]) * 300_000)

    def read(_: int) -> None:
        data = place.objects.read(path)
        assert len(data) == 300_000
        assert len(set(data)) == 1

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(write if number % 2 else read, number) for number in range(40)]
    for result in results:
        result.result()


CONTENDER = """
import json, sys
from snapline.storage.objects.file_objects import FileObjects
options, root, contender, count = json.loads(sys.argv[1])
objects = FileObjects(options=options)
objects.size_bytes(f"{root}/warm-up")
print("ready", flush=True)
sys.stdin.readline()
won = [n for n in range(count) if objects.create(f"{root}/race/{n}", bytes([contender]) * 5_000)]
print(json.dumps(won), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["directory", "file_url", "s3"], indirect=True)
def test_of_two_processes_one_creates(place: Place, s3_options_if_needed: dict[str, Any]) -> None:
    count = 30
    contenders = [
        subprocess.Popen(
            [sys.executable, "-c", CONTENDER, json.dumps([s3_options_if_needed, place.root, number, count])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    for contender in contenders:
        assert contender.stdout is not None
        assert contender.stdout.readline() == "ready\n"
    for contender in contenders:
        assert contender.stdin is not None
        contender.stdin.write("go\n")
        contender.stdin.flush()
    won = [json.loads(contender.communicate(timeout=60)[0]) for contender in contenders]
    assert sorted(won[0] + won[1]) == list(range(count))
    for number, names in enumerate(won):
        for name in names:
            assert place.objects.read(place.path(f"race/{name}")) == bytes([number]) * 5_000


def no_space(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", LOCAL, indirect=True)
def test_nothing_is_seen_of_a_write_that_failed(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_bytes(b"new")
    place.objects.write(place.path("old"), b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        for change in (
            lambda: place.objects.create(place.path("new"), b"new"),
            lambda: place.objects.write(place.path("new"), b"new"),
            lambda: place.objects.write(place.path("old"), b"new"),
            lambda: place.objects.upload(tmp_path / "source", place.path("new")),
        ):
            with pytest.raises(StorageError, match=r"No space left.*free space there") as raised:
                change()
            assert not raised.value.possibly_inconsistent
    assert place.objects.list(place.root) == [ObjectInfo(place.path("old"), 3)]
    assert place.objects.read(place.path("old")) == b"old"
    assert os.listdir(tmp_path / "store") == ["old"]


@pytest.mark.parametrize("place", LOCAL, indirect=True)
def test_temporary_files_of_a_dead_process_are_not_listed_but_deleted_with_the_tree(
    place: Place, tmp_path: Path
) -> None:
    place.objects.write(place.path("dir/object"), b"x")
    (tmp_path / "store" / "dir" / ".tmp-0123").write_bytes(b"part of somethi")
    assert [info.path for info in place.objects.list(place.root)] == [place.path("dir/object")]
    place.objects.delete([place.path("dir/object")])
    assert (tmp_path / "store" / "dir").is_dir()
    place.objects.delete_tree(place.path("dir"))
    assert os.listdir(tmp_path / "store") == []


def test_a_sweep_deletes_what_is_waste_and_nothing_else(place: Place, tmp_path: Path) -> None:
    objects = place.objects
    objects.write(place.path("job/chk-1/a1-state"), b"whole")
    directory = tmp_path / "hdfs" / "store" / "job"
    directory = directory if directory.exists() else tmp_path / "store" / "job"
    is_kept_in_files = directory.exists()
    waste = [".tmp-a1-01", "chk-1/.tmp-a1-02", "chk-2/.tmp-a1-03", "chk-4/empty"]
    waste += ["chk-3/.tmp-a1-04/staged"] if directory.is_relative_to(tmp_path / "hdfs") else []
    for name in waste if is_kept_in_files else []:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).mkdir() if name.endswith("empty") else (directory / name).write_bytes(b"half")
    asked = []

    def is_waste(path: str, *, answer: bool) -> bool:
        asked.append(path)
        return answer and path != place.path("job/")

    objects.sweep(place.path("job"), lambda path: is_waste(path, answer=False))
    assert all((directory / name).exists() for name in waste if is_kept_in_files)
    objects.sweep(place.path("job"), lambda path: is_waste(path, answer=True))
    objects.sweep(place.path("nowhere"), lambda path: is_waste(path, answer=True))
    assert all(path.startswith(place.path("")) for path in asked)
    assert objects.read(place.path("job/chk-1/a1-state")) == b"whole"
    if is_kept_in_files:
        assert place.path("job/chk-2/.tmp-a1-03") in asked
        assert sorted(str(path.relative_to(directory)) for path in directory.rglob("*")) == ["chk-1", "chk-1/a1-state"]


@pytest.mark.slow
def test_s3_sends_large_objects_in_parts_and_leaves_no_part_behind(
    s3_objects: FileObjects, s3_client: Any, s3_root: str
) -> None:
    data = some_bytes(LARGE_BYTES)
    path = f"{s3_root}/large"
    assert s3_objects.create(path, data)
    bucket = s3_root.removeprefix("s3://")
    assert s3_client.call_s3("head_object", Bucket=bucket, Key="large")["ETag"].strip('"').endswith("-3")
    assert not s3_objects.create(path, b"0" * LARGE_BYTES)
    assert s3_objects.read(path) == data
    assert s3_client.call_s3("list_multipart_uploads", Bucket=bucket).get("Uploads", []) == []


@pytest.mark.slow
def test_s3_ignores_markers_of_directories_and_deletes_them_with_the_tree(
    s3_objects: FileObjects, s3_client: Any, s3_root: str
) -> None:
    bucket = s3_root.removeprefix("s3://")
    s3_client.call_s3("put_object", Bucket=bucket, Key="dir/", Body=b"")
    s3_client.call_s3("put_object", Bucket=bucket, Key="dir/sub/", Body=b"")
    s3_objects.write(f"{s3_root}/dir/sub/object", b"x")
    assert s3_objects.list(f"{s3_root}/dir") == [ObjectInfo(f"{s3_root}/dir/sub/object", 1)]
    s3_objects.delete_tree(f"{s3_root}/dir")
    assert s3_client.call_s3("list_objects_v2", Bucket=bucket).get("Contents", []) == []


@pytest.mark.slow
def test_s3_deletes_more_objects_than_one_request_takes(s3_objects: FileObjects, s3_root: str) -> None:
    s3_objects.write(f"{s3_root}/last", b"x")
    s3_objects.delete([*(f"{s3_root}/none-{number}" for number in range(2_100)), f"{s3_root}/last"])
    assert s3_objects.list(s3_root) == []


@pytest.mark.slow
def test_s3_without_its_bucket(s3_options: dict[str, Any], s3_root: str) -> None:
    sleeps: list[float] = []
    objects = FileObjects(options={"s3": s3_options}, sleep=sleeps.append)
    missing = f"{s3_root}-missing"
    assert objects.list(missing) == []
    assert objects.size_bytes(f"{missing}/object") is None
    with pytest.raises(ObjectNotFoundError):
        objects.read(f"{missing}/object")
    for change in (objects.create, objects.write):
        with pytest.raises(StorageError, match="create the bucket or directory first") as raised:
            change(f"{missing}/object", b"x")
        assert not raised.value.possibly_inconsistent
    with pytest.raises(StorageError, match="2 of 2 objects could not be deleted"):
        objects.delete([f"{missing}/1", f"{missing}/2"])
    assert sleeps == []


class ScriptedS3:
    """An S3 endpoint that answers from a script, then succeeds. Its one object has the metadata sent last."""

    DROP = (0, "")
    """Read the request and close the connection, like a server that dies after its work."""

    def __init__(self) -> None:
        self.script: list[tuple[int, str]] = []
        self.requests: list[str] = []
        self.metadata: dict[str, str] = {}
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.close_connection = True
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                scripted.requests.append(self.command)
                scripted.metadata |= {k: v for k, v in self.headers.items() if k.lower().startswith("x-amz-meta-")}
                status, body = scripted.script.pop(0) if scripted.script else (200, "")
                if (status, body) == ScriptedS3.DROP:
                    return
                if status >= 300:
                    body = f"<Error><Code>{body}</Code><Message>scripted</Message></Error>"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                for name, value in scripted.metadata.items() if self.command == "HEAD" else ():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body.encode())

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.sleeps: list[float] = []
        self.objects = FileObjects(
            options={
                "s3": {
                    "key": "fake-access-key",
                    "secret": "fake-secret-key",
                    "endpoint_url": f"http://127.0.0.1:{self.server.server_port}",
                }
            },
            sleep=self.sleeps.append,
        )


@pytest.fixture(scope="module")
def running_scripted_s3() -> Iterator[ScriptedS3]:
    scripted = ScriptedS3()
    thread = Thread(target=scripted.server.serve_forever, args=(0.01,), name="scripted-s3", daemon=True)
    thread.start()
    yield scripted
    scripted.server.shutdown()
    thread.join()
    scripted.server.server_close()


@pytest.fixture
def scripted_s3(running_scripted_s3: ScriptedS3) -> ScriptedS3:
    running_scripted_s3.script = []
    running_scripted_s3.requests.clear()
    running_scripted_s3.metadata.clear()
    running_scripted_s3.sleeps.clear()
    return running_scripted_s3


PATH = "s3://bucket/object"
SLOW_DOWN = (503, "SlowDown")
INTERNAL_ERROR = (500, "InternalError")


@pytest.mark.slow
@pytest.mark.parametrize("failure", [SLOW_DOWN, INTERNAL_ERROR, (429, "TooManyRequests")])
def test_s3_is_asked_as_often_as_we_count_and_no_more(scripted_s3: ScriptedS3, failure: tuple[int, str]) -> None:
    scripted_s3.script = [failure] * 10
    with pytest.raises(StorageError, match=r"cannot read 's3://bucket/object'.*tries: 4.*overloaded") as raised:
        scripted_s3.objects.read(PATH, 0, 10)
    assert scripted_s3.requests == ["GET"] * 4
    assert scripted_s3.sleeps == [0.1, 0.2, 0.4]
    assert not raised.value.possibly_inconsistent
    assert raised.value.__cause__ is not None


@pytest.mark.slow
def test_s3_recovers_from_what_passes(scripted_s3: ScriptedS3) -> None:
    scripted_s3.script = [SLOW_DOWN, INTERNAL_ERROR]
    scripted_s3.objects.write(PATH, b"data")
    assert scripted_s3.requests == ["PUT"] * 3
    assert scripted_s3.sleeps == [0.1, 0.2]


# The HTTP client, aiohttp, always resends a request once that got no answer.
NO_ANSWER = [ScriptedS3.DROP, ScriptedS3.DROP]


@pytest.mark.slow
@pytest.mark.parametrize("failures", [[INTERNAL_ERROR], NO_ANSWER], ids=["internal_error", "no_answer"])
def test_s3_does_not_repeat_a_create_of_unclear_outcome(
    scripted_s3: ScriptedS3, failures: list[tuple[int, str]]
) -> None:
    scripted_s3.script = list(failures)
    with pytest.raises(StorageError, match="may have taken effect") as raised:
        scripted_s3.objects.create(PATH, b"data")
    assert raised.value.possibly_inconsistent
    assert scripted_s3.requests == ["PUT"] * len(failures)
    assert scripted_s3.sleeps == []


@pytest.mark.slow
def test_s3_knows_its_own_object_again_when_the_client_repeated_the_request(scripted_s3: ScriptedS3) -> None:
    exists = (412, "PreconditionFailed")
    scripted_s3.script = [ScriptedS3.DROP, exists]
    assert scripted_s3.objects.create(PATH, b"mine")
    assert scripted_s3.requests == ["PUT", "PUT", "HEAD"]
    scripted_s3.metadata.clear()
    scripted_s3.script = [ScriptedS3.DROP, exists, (404, "NoSuchKey")]
    assert not scripted_s3.objects.create(PATH, b"of another who deleted it since")


@pytest.mark.slow
def test_s3_without_an_answer_is_given_up_after_the_last_try(scripted_s3: ScriptedS3) -> None:
    scripted_s3.script = NO_ANSWER * 10
    with pytest.raises(StorageError, match=r"ConnectionClosedError.*tries: 4"):
        scripted_s3.objects.read(PATH)
    assert scripted_s3.requests == ["GET"] * 8
    assert scripted_s3.sleeps == [0.1, 0.2, 0.4]


@pytest.mark.slow
@pytest.mark.parametrize("refusal", [SLOW_DOWN, (409, "ConditionalRequestConflict")])
def test_s3_repeats_a_create_that_was_refused(scripted_s3: ScriptedS3, refusal: tuple[int, str]) -> None:
    scripted_s3.script = [refusal]
    assert scripted_s3.objects.create(PATH, b"data")
    assert scripted_s3.requests == ["PUT"] * 2
    assert scripted_s3.sleeps == [0.1]


@pytest.mark.slow
def test_s3_that_says_there_is_one_without_saying_why(scripted_s3: ScriptedS3) -> None:
    scripted_s3.script = [(412, "PreconditionFailed"), (404, "NoSuchKey")]
    assert not scripted_s3.objects.create(PATH, b"data")
    assert scripted_s3.requests == ["PUT", "HEAD"]


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["create", "write"])
def test_s3_does_not_repeat_what_is_forbidden(scripted_s3: ScriptedS3, operation: str) -> None:
    scripted_s3.script = [(403, "AccessDenied")]
    with pytest.raises(StorageError, match="check the permissions and credentials") as raised:
        getattr(scripted_s3.objects, operation)(PATH, b"data")
    assert not raised.value.possibly_inconsistent
    assert scripted_s3.requests == ["PUT"]
    assert scripted_s3.sleeps == []
    assert "fake-" not in str(raised.value)


@pytest.mark.slow
def test_s3_that_cannot_be_reached_has_done_nothing() -> None:
    unreachable = ScriptedS3()
    unreachable.server.server_close()
    with pytest.raises(StorageError, match=r"EndpointConnectionError.*tries: 4\)") as raised:
        unreachable.objects.create(PATH, b"data")
    assert not raised.value.possibly_inconsistent
    assert unreachable.sleeps == [0.1, 0.2, 0.4]


@pytest.mark.slow
def test_s3_says_how_many_of_many_could_not_be_deleted(scripted_s3: ScriptedS3) -> None:
    refused = "<DeleteResult><Error><Key>2</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    scripted_s3.script = [(200, refused)]
    with pytest.raises(StorageError, match=r"1 of 3 objects could not be deleted; the first failure: .*2: no"):
        scripted_s3.objects.delete([f"s3://bucket/{number}" for number in range(3)])
    assert scripted_s3.requests == ["POST"]
    busy = refused.replace("AccessDenied", "SlowDown")
    scripted_s3.script = [(200, busy), (200, busy)]
    scripted_s3.objects.delete([f"s3://bucket/{number}" for number in range(3)])
    assert scripted_s3.requests == ["POST"] * 4
    assert scripted_s3.sleeps == [0.1, 0.2]

"""Paths, routing, retries and messages; `tests/contract/test_object_stores.py` covers what every store does."""

from __future__ import annotations

import errno
import os
import threading
import traceback
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.registry import _registry

from snapline.config import Secret
from snapline.errors import ConfigurationError, StorageError
from snapline.storage.objects.file_objects import MAX_RETRIES, FileObjects
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import ObjectInfo, ObjectStore

WRONG_PATHS = [
    ("", "is not a path"),
    ("/data/object\0", "control character"),
    ("/data/new\nline", "control character"),
    ("/data/\x7f", "control character"),
    ("/data/../object", "write the path out"),
    ("../object", "write the path out"),
    ("/data/./object", "write the path out"),
    ("/data//object", "write the path out"),
    ("//data/object", "write the path out"),
    ("s3://bucket/..", "write the path out"),
    ("s3://bucket//object", "write the path out"),
    ("file://host/object", "three slashes"),
    ("file://", "write file:///data"),
    ("file:/data/object", "file:///data"),
    ("hdfs:/data/object", "neither a local path nor a URL"),
    ("simplecache::s3://bucket/object", "neither a local path nor a URL"),
    ("s3:///object", "names no bucket"),
    ("s3://bucket/object?versionId=1", "leave out"),
    ("/data/.tmp-1/object", "which is reserved"),
]

WRONG_FOR_OBJECTS = [
    ("/data/", "names a directory"),
    ("s3://bucket/data/", "names a directory"),
    ("/", "names a directory"),
    ("s3://bucket", "name an object in it"),
    ("hdfs://host", "name an object in it"),
    ("memory://", "names a directory"),
]


@pytest.mark.parametrize("objects", [FileObjects(), MemoryObjects()], ids=["files", "memory"])
@pytest.mark.parametrize(("path", "advice"), [*WRONG_PATHS, *WRONG_FOR_OBJECTS])
def test_a_wrong_path_of_an_object_is_refused_by_every_method(
    objects: ObjectStore, path: str, advice: str, tmp_path: Path
) -> None:
    for use in (
        lambda: objects.create(path, b""),
        lambda: objects.write(path, b""),
        lambda: objects.upload(tmp_path, path),
        lambda: objects.download(path, tmp_path / "target"),
        lambda: objects.read(path),
        lambda: objects.open(path),
        lambda: objects.size_bytes(path),
        lambda: objects.delete([path]),
    ):
        with pytest.raises(ConfigurationError, match=advice):
            use()


@pytest.mark.parametrize("objects", [FileObjects(), MemoryObjects()], ids=["files", "memory"])
@pytest.mark.parametrize(("path", "advice"), WRONG_PATHS)
def test_a_wrong_path_of_a_directory_is_refused(objects: ObjectStore, path: str, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        objects.list(path)
    with pytest.raises(ConfigurationError, match=advice):
        objects.delete_tree(path)


@pytest.mark.parametrize("root", ["/", "file:///", "memory://", "hdfs://host/", "hdfs:///"])
def test_a_whole_file_system_is_never_deleted(root: str) -> None:
    with pytest.raises(ConfigurationError, match="name a directory in it"):
        FileObjects().delete_tree(root)


@pytest.mark.parametrize("objects", [FileObjects(), MemoryObjects()], ids=["files", "memory"])
def test_a_range_cannot_be_negative(objects: ObjectStore, tmp_path: Path) -> None:
    path = str(tmp_path / "object")
    objects.write(path, b"data")
    with pytest.raises(ConfigurationError, match="use 0 or more"):
        objects.read(path, -1)
    with pytest.raises(ConfigurationError, match="use 0 or more"):
        objects.read(path, 0, -1)


def test_a_password_in_a_path_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="storage option") as raised:
        FileObjects().read("hdfs://user:hunter2@host/object")
    assert "hunter2" not in str(raised.value)


def test_relative_paths_are_of_the_working_directory_and_listed_as_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    objects = FileObjects()
    objects.write("store/a", b"x")
    objects.write("./store/b", b"x")
    assert (tmp_path / "store" / "b").read_bytes() == b"x"
    assert objects.list("store") == [ObjectInfo("store/a", 1), ObjectInfo("store/b", 1)]
    assert [info.path for info in objects.list("./store")] == ["./store/a", "./store/b"]
    assert [info.path for info in objects.list("./")] == ["./store/a", "./store/b"]
    assert [info.path for info in objects.list(f"file://{tmp_path}")] == [
        f"file://{tmp_path}/store/a",
        f"file://{tmp_path}/store/b",
    ]


def test_an_unknown_scheme_is_refused_with_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown scheme 'nosuch'; use a local path, file://, s3://"):
        FileObjects().read("nosuch://host/object")


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"retries": -1}, f"retries = -1: out of range; use 0 to {MAX_RETRIES}"),
        ({"retries": MAX_RETRIES + 1}, "retries"),
        ({"backoff_ms": -1}, "backoff_ms"),
        ({"parallelism": 0}, "parallelism = 0: out of range; use 1 to"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, int], advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        FileObjects(**settings)  # type: ignore[arg-type]


class Failing:
    """Replaces a function of `os`: fails with each given errno, then calls the function."""

    def __init__(self, function: Any, *numbers: int) -> None:
        self.function = function
        self.numbers = list(numbers)
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.numbers:
            number = self.numbers.pop(0)
            raise OSError(number, os.strerror(number))
        return self.function(*args)


def test_what_may_pass_is_tried_again_after_growing_pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    objects = FileObjects(retries=3, backoff_ms=50, sleep=sleeps.append)
    monkeypatch.setattr(os, "replace", Failing(os.replace, errno.EIO, errno.ESTALE, errno.ETIMEDOUT))
    objects.write(str(tmp_path / "object"), b"data")
    assert objects.read(str(tmp_path / "object")) == b"data"
    assert sleeps == [0.05, 0.1, 0.2]
    assert os.listdir(tmp_path) == ["object"]


def test_tries_are_bounded_and_the_doubt_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    objects = FileObjects(retries=2, sleep=sleeps.append)
    failing = Failing(os.replace, *[errno.EIO] * 10)
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(StorageError, match=r"cannot write '.*object'.*tries: 3; it may have taken effect") as raised:
        objects.write(str(tmp_path / "object"), b"data")
    assert raised.value.possibly_inconsistent
    assert isinstance(raised.value.__cause__, OSError)
    assert failing.calls == 3
    assert sleeps == [0.1, 0.2]
    assert os.listdir(tmp_path) == []


def test_no_pause_grows_without_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    monkeypatch.setattr(os, "replace", Failing(os.replace, *[errno.EIO] * 12))
    FileObjects(retries=12, sleep=sleeps.append).write(str(tmp_path / "object"), b"data")
    assert sleeps[-3:] == [30.0, 30.0, 30.0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EISDIR, errno.ENOENT, errno.EDQUOT])
def test_what_lasts_is_not_tried_again(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []
    failing = Failing(os.replace, number)
    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(StorageError, match="tries: 1") as raised:
        FileObjects(sleep=sleeps.append).write(str(tmp_path / "object"), b"data")
    assert not raised.value.possibly_inconsistent
    assert failing.calls == 1
    assert sleeps == []


def test_create_is_tried_again_only_before_it_can_have_taken_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[float] = []
    objects = FileObjects(sleep=sleeps.append)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Failing(os.fsync, errno.EIO))
        assert objects.create(str(tmp_path / "first"), b"data")
    assert sleeps == [0.1]
    failing = Failing(os.link, errno.EIO)
    monkeypatch.setattr(os, "link", failing)
    with pytest.raises(StorageError, match="may have taken effect") as raised:
        objects.create(str(tmp_path / "second"), b"data")
    assert raised.value.possibly_inconsistent
    assert failing.calls == 1
    assert sleeps == [0.1]
    assert os.listdir(tmp_path) == ["first"]


def test_delete_tries_all_and_says_how_many_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FileObjects(parallelism=3)
    paths = [str(tmp_path / f"{number}") for number in range(10)]
    for path in paths:
        objects.write(path, b"")
    unlink = os.unlink

    def refusing(path: str) -> None:
        if path[-1] in "36":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refusing)
    with pytest.raises(StorageError, match=r"2 of 10 objects could not be deleted; .*/3'.*check the permissions"):
        objects.delete(paths)
    assert sorted(os.listdir(tmp_path)) == ["3", "6"]


def test_deletes_are_parallel_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()
    meeting = threading.Barrier(4)
    running = most = 0

    def unlink(_: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meeting.wait(10)
        with lock:
            running -= 1

    monkeypatch.setattr(os, "unlink", unlink)
    FileObjects(parallelism=4).delete([str(tmp_path / f"{number}") for number in range(12)])
    assert most == 4


def test_secrets_stay_out_of_messages_and_representations(monkeypatch: pytest.MonkeyPatch) -> None:
    class Talkative(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "talkative"

        def __init__(self, secret: str, client_kwargs: dict[str, str], endpoint_url: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.text = f"{secret} {client_kwargs} {endpoint_url}"

        def info(self, path: str, **_: Any) -> Any:
            raise OSError(self.text)

    monkeypatch.setitem(_registry, "talkative", Talkative)
    options = {"secret": "hunter2", "client_kwargs": {"aws_session_token": "hunter3"}, "endpoint_url": "http://here"}
    objects = FileObjects(options={"talkative": options})
    with pytest.raises(StorageError, match="http://here") as raised:
        objects.size_bytes("talkative://host/object")
    assert "hunter" not in str(raised.value)
    assert "hunter" not in "".join(traceback.format_exception(raised.value))
    assert "hunter" not in repr(objects)


class Guarded(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Accepts one password, and quotes those that it refuses."""

    protocol = "guarded"
    accepted = "first"
    connections = 0

    def __init__(self, password: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.password = password
        type(self).connections += 1

    def info(self, path: str, **_: Any) -> Any:
        if self.password != self.accepted:
            raise PermissionError(f"not {self.password}")
        return {"name": path, "size": 3, "type": "file"}


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> type[Guarded]:
    monkeypatch.setitem(_registry, "guarded", Guarded)
    monkeypatch.setattr(Guarded, "accepted", "first")
    monkeypatch.setattr(Guarded, "connections", 0)
    monkeypatch.setenv("STORE_PASSWORD", "first")
    return Guarded


def test_refused_secrets_are_resolved_again(guarded: type[Guarded], monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FileObjects(options={"guarded": {"password": Secret.env("STORE_PASSWORD")}})
    assert objects.size_bytes("guarded://host/object") == 3
    guarded.accepted = "second"
    with pytest.raises(
        StorageError, match=r"not \*\*\*.*it was given password=Secret.env\('STORE_PASSWORD'\)"
    ) as caught:
        objects.size_bytes("guarded://host/object")
    assert guarded.connections == 1
    assert "first" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.setenv("STORE_PASSWORD", "second")
    assert objects.size_bytes("guarded://host/object") == 3
    assert guarded.connections == 2


def test_secrets_that_keep_changing_are_tried_once_per_operation(guarded: type[Guarded]) -> None:
    passwords = iter(range(100))
    objects = FileObjects(options={"guarded": {"password": Secret.call(lambda: f"wrong-{next(passwords)}")}})
    with pytest.raises(StorageError, match=r"PermissionError: not \*\*\* \(tries: 2\)"):
        objects.size_bytes("guarded://host/object")
    assert guarded.connections == 2


def test_a_secret_that_is_gone_is_named_beside_the_refusal(
    guarded: type[Guarded], monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FileObjects(options={"guarded": {"password": Secret.env("STORE_PASSWORD")}})
    assert objects.size_bytes("guarded://host/object") == 3
    guarded.accepted = "second"
    monkeypatch.delenv("STORE_PASSWORD")
    with pytest.raises(StorageError, match=r"PermissionError.*Secret.env\('STORE_PASSWORD'\) is not set"):
        objects.size_bytes("guarded://host/object")

"""The faulty store fails where it is told to, with or without effect, and tells what was asked of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapline.devtools.kit.faulty_objects import CHANGING_METHODS, METHODS, FaultyObjects
from snapline.errors import ConfigurationError, ObjectNotFoundError, StorageError
from snapline.storage.objects.memory_objects import MemoryObjects


def use_every_method(objects: FaultyObjects, directory: Path) -> None:
    (directory / "source").write_bytes(b"s")
    assert objects.create("memory://a", b"a")
    objects.write("memory://b", b"b")
    objects.upload(directory / "source", "memory://c")
    objects.download("memory://c", directory / "target")
    assert objects.read("memory://a", 0, 1) == b"a"
    with objects.open("memory://a") as file:
        assert file.read() == b"a"
    assert objects.size_bytes("memory://a") == 1
    assert len(objects.list("memory://")) == 3
    objects.delete(["memory://a", "memory://b"])
    objects.delete_tree("memory://c")
    objects.sweep("memory://", lambda _: True)


EVERY_CALL = [
    ("create", "memory://a"),
    ("write", "memory://b"),
    ("upload", "memory://c"),
    ("download", "memory://c"),
    ("read", "memory://a"),
    ("open", "memory://a"),
    ("size_bytes", "memory://a"),
    ("list", "memory://"),
    ("delete", "memory://a"),
    ("delete", "memory://b"),
    ("delete_tree", "memory://c"),
    ("sweep", "memory://"),
]


def test_without_a_fault_it_only_counts(tmp_path: Path) -> None:
    objects = FaultyObjects(MemoryObjects())
    use_every_method(objects, tmp_path)
    assert objects.calls == EVERY_CALL
    assert {method for method, _ in EVERY_CALL} == METHODS


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("fail_at", range(1, len(EVERY_CALL) + 1))
def test_the_call_with_the_number_fails(fail_at: int, after_effect: bool, tmp_path: Path) -> None:
    objects = FaultyObjects(MemoryObjects(), fail_at, after_effect=after_effect)
    method, path = EVERY_CALL[fail_at - 1]
    with pytest.raises(StorageError, match=f"injected: call {fail_at}, {method} of '{path}'") as raised:
        use_every_method(objects, tmp_path)
    assert raised.value.possibly_inconsistent == (after_effect and method in CHANGING_METHODS)
    # A delete goes on with its other paths.
    assert objects.calls == EVERY_CALL[: 10 if method == "delete" else fail_at]


def test_before_the_effect_and_after_it() -> None:
    inner = MemoryObjects()
    with pytest.raises(StorageError):
        FaultyObjects(inner, 1).create("memory://a", b"a")
    assert inner.size_bytes("memory://a") is None
    with pytest.raises(StorageError):
        FaultyObjects(inner, 1, after_effect=True).create("memory://a", b"a")
    assert inner.read("memory://a") == b"a"


def test_a_fault_passes_and_a_crash_does_not() -> None:
    passing = FaultyObjects(MemoryObjects(), 1)
    with pytest.raises(StorageError):
        passing.write("memory://a", b"1")
    passing.write("memory://a", b"1")
    assert passing.read("memory://a") == b"1"

    inner = MemoryObjects()
    crashed = FaultyObjects(inner, 1, crash=True, after_effect=True, only={"write"})
    with pytest.raises(StorageError):
        crashed.write("memory://a", b"1")
    for use in (lambda: crashed.read("memory://a"), lambda: crashed.delete(["memory://a"])):
        with pytest.raises(StorageError, match="after the crash"):
            use()
    assert inner.read("memory://a") == b"1"


def test_a_crash_within_a_delete_leaves_the_rest() -> None:
    inner = MemoryObjects()
    paths = [f"memory://{number}" for number in range(4)]
    for path in paths:
        inner.write(path, b"")
    with pytest.raises(StorageError, match="call 3"):
        FaultyObjects(inner, 3, crash=True).delete(paths)
    assert [info.path for info in inner.list("memory://")] == paths[2:]


def test_only_some_methods_count() -> None:
    objects = FaultyObjects(MemoryObjects(), 2, only={"write"})
    objects.write("memory://a", b"1")
    objects.read("memory://a")
    objects.list("memory://")
    with pytest.raises(StorageError, match="call 2, write"):
        objects.write("memory://b", b"2")
    assert objects.calls == [("write", "memory://a"), ("write", "memory://b")]


def test_errors_of_the_inner_store_pass_through() -> None:
    objects = FaultyObjects(MemoryObjects())
    with pytest.raises(ObjectNotFoundError):
        objects.read("memory://missing")


@pytest.mark.parametrize(
    ("settings", "advice"), [({"fail_at": 0}, "counted from 1"), ({"only": ["rename"]}, "no such methods")]
)
def test_wrong_settings_are_refused(settings: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        FaultyObjects(MemoryObjects(), **settings)

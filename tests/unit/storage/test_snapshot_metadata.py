"""The `_metadata` file: its content, relative paths, and damage."""

from __future__ import annotations

import json
import time
import zlib
from typing import Any

import pytest

from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.keygroups import EMPTY, KeyGroupRange
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.storage import snapshot_metadata
from snapline.storage.snapshot_metadata import FORMAT_VERSION, Header, decode, encode, header
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind

LOCATION = "s3://bucket/jobs/j1/chk-7"


def _snapshot(location: str = LOCATION, kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    keyed = KeyedPart(
        KeyGroupRange(0, 63),
        (
            StoredObject("s3://bucket/jobs/j1/shared/a1-sst", 9, shared_key="a1-sst", crc32=0, reused=True),
            StoredObject(f"{location}/a2-list", 4, crc32=2**32 - 1),
        ),
        native="rocksdb",
    )
    raw = KeyedPart(EMPTY, (StoredObject("inline:a2-raw#0", 3, crc32=5, data=b"\x00\xff\n"),), raw=True)
    subtask = SubtaskState(
        (keyed, raw),
        (
            OperatorPart("offsets", OperatorStateMode.UNION, 3, StoredObject(f"{location}/a2-ops", 8, offset=16)),
            OperatorPart("rules", OperatorStateMode.BROADCAST, 0, StoredObject("inline:", 0, data=b""), raw=True),
        ),
        (ChannelPart("a->b", 1, 0, StoredObject(f"{location}/a2-channels", 5, crc32=1)),),
        (ChannelPart("b->c", 0, 3, StoredObject(f"{location}/a2-channels", 6, offset=5)),),
        ended=True,
        watermark_ms=-5,
    )
    return Snapshot(
        7,
        kind,
        2,
        1_700_000_000_000,
        location,
        {
            "b": OperatorState("b", 2, 128, {1: SubtaskState(finished=True), 0: subtask}),
            "naïve/ünï\n": OperatorState("naïve/ünï\n", 1, 1, {}, StoredObject("/elsewhere/x", 1), True),
        },
        {"hook": StoredObject(f"{location}/a2-hook", 2)},
        SavepointFormat.NATIVE if kind.is_savepoint else None,
    )


def test_metadata_that_would_not_fit_a_message_of_a_restore_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    size = encode(_snapshot()).index(b"\n")
    monkeypatch.setattr(snapshot_metadata, "METADATA_LIMIT_BYTES", size)
    with pytest.raises(StorageError, match=r"snapshot 7 would have [0-9]+ bytes, 3 of them small state"):
        encode(_snapshot())


def _body(data: bytes) -> Any:
    return json.loads(data.split(b"\n")[1])


def _with_body(body: Any) -> bytes:
    line = json.dumps(body).encode()
    first = {"format": "snapline-snapshot", "version": 1, "bytes": len(line), "crc32": zlib.crc32(line)}
    return json.dumps(first).encode() + b"\n" + line + b"\n"


def _minimal(path: str, **fields: Any) -> bytes:
    hooks = {"h": {"path": path, "size_bytes": 1, **fields}}
    return _with_body({"id": 1, "kind": "CHECKPOINT", "attempt": 1, "timestamp_ms": 0, "operators": [], "hooks": hooks})


@pytest.mark.parametrize("kind", SnapshotKind)
def test_what_is_decoded_is_what_was_encoded(kind: SnapshotKind) -> None:
    snapshot = _snapshot(kind=kind)
    decoded = decode(encode(snapshot), snapshot.location)
    assert decoded == snapshot
    hidden = [(item.crc32, item.data, item.offset) for item in snapshot.objects()]
    assert [(item.crc32, item.data, item.offset) for item in decoded.objects()] == hidden
    assert decoded.operators["b"].subtasks[0].keyed[0].native == "rocksdb"
    assert not any(item.reused for item in decoded.objects())


def test_it_is_two_lines_of_json() -> None:
    data = encode(_snapshot())
    first, second, rest = data.split(b"\n")
    assert rest == b""
    assert json.loads(first) == {
        "format": "snapline-snapshot",
        "version": FORMAT_VERSION,
        "bytes": len(second),
        "crc32": zlib.crc32(second),
    }
    assert header(data) == Header("snapline-snapshot", FORMAT_VERSION, len(second), zlib.crc32(second))
    body = _body(data)
    subtask = body["operators"][0]["subtasks"][0]
    assert body["kind"] == "CHECKPOINT"
    assert "location" not in body
    assert [item["index"] for item in body["operators"][0]["subtasks"]] == [0, 1]
    assert subtask["keyed"][0]["key_groups"] == [0, 63]
    assert [item["path"] for item in subtask["keyed"][0]["objects"]] == ["../shared/a1-sst", "a2-list"]
    assert subtask["keyed"][1]["objects"] == [{"path": "inline:a2-raw#0", "size_bytes": 3, "crc32": 5, "data": "AP8K"}]
    assert subtask["operator"][0]["mode"] == "UNION"
    assert body["operators"][1]["coordinator"] == {"path": "/elsewhere/x", "size_bytes": 1, "external": True}


def test_paths_move_with_the_directory() -> None:
    moved = decode(encode(_snapshot()), "/restored/j1/chk-7")
    assert moved.location == "/restored/j1/chk-7"
    assert [item.path for item in moved.objects() if not item.is_inline] == [
        "/restored/j1/shared/a1-sst",
        "/restored/j1/chk-7/a2-list",
        "/restored/j1/chk-7/a2-ops",
        "/restored/j1/chk-7/a2-channels",
        "/restored/j1/chk-7/a2-channels",
        "/elsewhere/x",
        "/restored/j1/chk-7/a2-hook",
    ]


def test_a_savepoint_refers_to_nothing_beside_it_by_a_relative_path() -> None:
    savepoint = _snapshot(kind=SnapshotKind.SAVEPOINT)
    assert decode(encode(savepoint), "/moved").operators["b"].subtasks[0].keyed[0].objects[0].path == (
        "s3://bucket/jobs/j1/shared/a1-sst"
    )


@pytest.mark.parametrize("location", ["/chk-1", "chk-1", "data/chk-1", "memory://x", "file:///d/chk-1"])
@pytest.mark.parametrize("rest", ["a", "d/a", "../shared/a", "../other/a", "..", ".", "", "d//a", "d/../../a", "/a"])
def test_every_path_comes_back_as_it_was(location: str, rest: str) -> None:
    parent = location[: location.rfind("/") + 1]
    for path in (f"{location}/{rest}", f"{parent}shared/{rest}", f"{location}{rest}", rest):
        snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, location, {}, {"h": StoredObject(path, 1)})
        assert decode(encode(snapshot), location) == snapshot


def test_an_operator_listed_under_another_name_is_a_defect() -> None:
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "/l", {"a": OperatorState("b", 1, 1)})
    with pytest.raises(EngineError, match="listed under 'a'"):
        encode(snapshot)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "empty, cut off"),
        (b"{}", "empty, cut off"),
        (b"PAR1\nPAR1\n", "not the metadata of a snapshot"),
        (b"{}\n{}\n", "not the metadata of a snapshot"),
        (b'{"format":"other","version":1}\n{}\n', "not the metadata of a snapshot, but 'other'"),
        (b'{"format":"snapline-snapshot","version":0}\n{}\n', "damaged"),
        (b'{"format":"snapline-snapshot","version":1}\n{}\n', "damaged"),
        (b'{"format":"snapline-snapshot","version":1,"bytes":-1,"crc32":0}\n\n', "damaged"),
        (b'{"format":"snapline-snapshot","version":1,"bytes":3,"crc32":0}\n{}\n', "one line of 3 bytes"),
        (b'{"format":"snapline-snapshot","version":1,"bytes":2,"crc32":0}\n{}\n', "checksum"),
        (encode(_snapshot())[:-1], "one line of"),
        (encode(_snapshot())[:-9], "one line of"),
        (encode(_snapshot()) + b"x", "one line of"),
    ],
)
def test_what_is_not_whole_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(DamagedError, match=complaint) as caught:
        decode(data, "/l")
    assert str(caught.value).startswith("/l/_metadata ")


def test_a_newer_format_is_not_reported_as_damage() -> None:
    data = b'{"format":"snapline-snapshot","version":3,"parts":[1]}\n\x00\x01'
    with pytest.raises(DamagedError) as caught:
        decode(data, "/l")
    assert str(caught.value) == (
        "/l/_metadata was written by a newer Snapline (format 3, this one reads up to 2); upgrade"
    )


@pytest.mark.parametrize(
    "path", ["../shared/../x", "../shared", "../shared/", "../other/x", "..", "a/../../x", "./a", "", "/a", "a//b"]
)
def test_a_path_outside_the_snapshot_is_refused(path: str) -> None:
    with pytest.raises(DamagedError, match="points outside"):
        decode(_minimal(path), "/l/chk-1")


@pytest.mark.parametrize(
    "change",
    [
        {"id": -1},
        {"id": "1"},
        {"id": 2**63},
        {"kind": "OTHER"},
        {"format": "OTHER"},
        {"attempt": None},
        {"timestamp_ms": 1.5},
        {"operators": {}},
        {"unknown": 1},
        {"location": "/l"},
        {"operators": [{"uid": "u", "parallelism": 0, "max_parallelism": 1}]},
        {"operators": [{"uid": "u", "parallelism": 1, "max_parallelism": 32769}]},
        {"operators": [{"uid": "u", "parallelism": 3, "max_parallelism": 2}]},
        {"operators": [{"uid": "u", "parallelism": 1, "max_parallelism": 1}] * 2},
        {"operators": [{"uid": "u", "parallelism": 1, "max_parallelism": 1, "subtasks": [{"index": 1}]}]},
        {"operators": [{"uid": "u", "parallelism": 1, "max_parallelism": 1, "subtasks": [{"index": 0}] * 2}]},
        {"hooks": {"h": {"path": "a", "size_bytes": -1}}},
        {"hooks": {"h": {"path": "a", "size_bytes": 1, "offset": -1}}},
        {"hooks": {"h": {"path": "a", "size_bytes": 1, "crc32": 2**32}}},
        {"hooks": {"h": {"path": "a", "size_bytes": 2, "data": "AA=="}}},
        {"hooks": {"h": {"path": "a", "size_bytes": 1, "data": "?"}}},
        {"hooks": {"h": {"path": "a", "size_bytes": 1, "data": "AA==", "external": True}}},
    ],
)
def test_an_inconsistent_body_is_refused(change: dict[str, Any]) -> None:
    body = {"id": 1, "kind": "CHECKPOINT", "attempt": 1, "timestamp_ms": 0, "operators": []}
    decode(_with_body(body), "/l")
    with pytest.raises(DamagedError, match="damaged"):
        decode(_with_body({**body, **change}), "/l")


@pytest.mark.parametrize("key_groups", [[5, 4], [-1, 3], [0, 32768], [0], [0, 1, 2], "all"])
def test_impossible_key_groups_are_refused(key_groups: Any) -> None:
    body = _body(encode(_snapshot()))
    body["operators"][0]["subtasks"][0]["keyed"][0]["key_groups"] = key_groups
    with pytest.raises(DamagedError, match="damaged"):
        decode(_with_body(body), "/l")


def test_a_large_snapshot_is_quick() -> None:
    def state(index: int) -> SubtaskState:
        objects = tuple(StoredObject(f"{LOCATION}/a1-{index}-{part}", part, crc32=part) for part in range(3))
        return SubtaskState((KeyedPart(KeyGroupRange(index, index), objects),))

    operator = OperatorState("u", 10_000, 32768, {index: state(index) for index in range(10_000)})
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, LOCATION, {"u": operator})
    started = time.process_time()
    decoded = decode(encode(snapshot), LOCATION)
    assert time.process_time() - started < 3, "a second or so, also beside other work"
    assert decoded == snapshot

"""The script in `docs/state-format.md` reads a snapshot with nothing but pyarrow, and finds what was written."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import (
    ChannelPart,
    KeyedPart,
    OperatorPart,
    OperatorState,
    Snapshot,
    StoredObject,
    SubtaskState,
)
from snapline.state import state_files, state_info
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode, SnapshotKind

PAGE = Path(__file__).parents[2] / "docs" / "state-format.md"

BLOCKER = """
import runpy, sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("snapline", "pandas"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

KEYED: dict[str, tuple[StateKind, pa.Table]] = {
    "total": (StateKind.VALUE, pa.table({"key": ["a", "b"], "value": [1, None]})),
    "seen": (StateKind.LIST, pa.table({"key": ["a", "a"], "position": [0, 1], "value": [[1], []]})),
    "by day": (StateKind.MAP, pa.table({"key": [1, 2], "map_key": ["x", "y"], "value": [0.5, 1.5]})),
    "_timers": (StateKind.TIMERS, pa.table({"key": [1, 2], "time": [5, 6], "domain": ["event", "processing"]})),
}


def _script() -> str:
    (script,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(script)


def _run(script: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-W", "error", "-c", BLOCKER, str(script), str(directory)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def _bytes(info: StateInfo, table: pa.Table) -> Any:
    return memoryview(state_files.write(info, table, zstd=True))


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _write(directory: Path, *, inline_bytes: int) -> tuple[Path, list[str]]:
    """A checkpoint with every way to store an object, and the lines the script should print for it."""
    objects, location, lines = FileObjects(), f"{directory}/job/chk-3", []
    subtasks = {}
    for index in range(2):
        target = SnapshotWriter(
            objects,
            location,
            f"{directory}/job/shared",
            attempt=1,
            checkpoint_id=3,
            uid="count",
            subtask=index,
            options=WriteOptions(inline_bytes=inline_bytes),
        )
        groups = KeyGroupRange(index * 4, index * 4 + 3)
        stored = []
        for name, (kind, columns) in KEYED.items():
            table = columns.add_column(0, "key_group", pa.array([groups.start, groups.end], pa.int32()))
            stored.append(target.write(name, _bytes(StateInfo("count", name, kind, 8, ValueEncoding.ARROW), table)))
            lines.append(f"count {index} {name} {kind.value} {table.to_pylist()}")
        lists = {"offsets": pa.table({"value": [index, 7]}), "things": pa.table({"value": [pickle.dumps({index})]})}
        encodings = (ValueEncoding.ARROW, ValueEncoding.PICKLE)
        slices = target.write_slices(
            "lists",
            [
                _bytes(StateInfo("count", name, StateKind.OPERATOR_LIST, None, encoding), table)
                for (name, table), encoding in zip(lists.items(), encodings, strict=True)
            ],
        )
        lines += (f"count {index} {name} operator-list {table.to_pylist()}" for name, table in lists.items())
        batches = [pa.table({"word": ["x", "y"]}), pa.table({"number": [index]})]
        channel = target.write("in-flight", b"".join(_stream(batch) for batch in batches))
        lines += (f"count {index} in {batch.to_pylist()}" for batch in batches)
        subtasks[index] = SubtaskState(
            (KeyedPart(groups, tuple(stored)),),
            tuple(
                OperatorPart(name, OperatorStateMode.SPLIT, lists[name].num_rows, item)
                for name, item in zip(lists, slices, strict=True)
            ),
            (ChannelPart("in", 0, index, channel),),
        )
    shared = f"{directory}/job/shared/a1-other"
    union = pa.table({"value": ["shared"]})
    data = _bytes(StateInfo("other", "u", StateKind.OPERATOR_UNION, None, ValueEncoding.ARROW), union)
    elsewhere = f"{directory}/elsewhere"
    for path in (shared, elsewhere):
        objects.write(path, data)
    parts = tuple(
        OperatorPart("u", OperatorStateMode.UNION, 1, StoredObject(path, data.nbytes)) for path in (shared, elsewhere)
    )
    lines += [f"other 0 u operator-union {union.to_pylist()}"] * 2
    native = KeyedPart(KeyGroupRange(0, 7), (StoredObject("inline:names", 2, data=b"[]"),), native="rocksdb")
    snapshot = Snapshot(
        3,
        SnapshotKind.CHECKPOINT,
        1,
        0,
        location,
        {
            "count": OperatorState("count", 2, 8, subtasks),
            "other": OperatorState("other", 2, 8, {0: SubtaskState((native,), parts), 1: SubtaskState(finished=True)}),
            "done": OperatorState("done", 1, 8, fully_finished=True),
        },
    )
    objects.write(snapshot.metadata_path, metadata.encode(snapshot))
    return Path(location), lines


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
def test_the_script_prints_every_state(tmp_path: Path, inline_bytes: int) -> None:
    location, lines = _write(tmp_path / "there", inline_bytes=inline_bytes)
    script = tmp_path / "states.py"
    script.write_text(_script(), encoding="utf-8")
    job = location.parent.rename(tmp_path / "moved")
    finished = _run(script, job / "chk-3")
    assert finished.stderr == ""
    assert sorted(finished.stdout.splitlines()) == sorted(lines)


def test_the_script_notices_damage(tmp_path: Path) -> None:
    location, _ = _write(tmp_path, inline_bytes=0)
    script = tmp_path / "states.py"
    script.write_text(_script(), encoding="utf-8")
    state = location / "a1-count-1-total"
    state.write_bytes(state.read_bytes().replace(b"a", b"b"))
    assert "a1-count-1-total is damaged" in _run(script, location).stderr


def test_the_page_names_every_field_kind_and_column() -> None:
    page = PAGE.read_text(encoding="utf-8")
    wire = (
        metadata.Header,
        metadata._Snapshot,
        metadata._OperatorState,
        metadata._Subtask,
        metadata._Keyed,
        metadata._Operator,
        metadata._Channel,
        metadata._Object,
        state_files._Footer,
    )
    words = {field for struct in wire for field in struct.__struct_fields__}
    words |= {kind.value for kind in StateKind}
    words |= {column for columns in state_info.COLUMNS.values() for column in columns}
    missing = {word for word in words if f"`{word}`" not in page}
    assert missing == set()

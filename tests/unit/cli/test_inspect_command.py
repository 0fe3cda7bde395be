"""`snapline inspect`: its output, and that a mistake costs one line and exit code 2."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from snapline import cli
from snapline.cli import storage_access
from snapline.cli.inspect_command import DEFAULT_LIMIT
from snapline.errors import ConfigurationError
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
from snapline.state import state_files
from snapline.state.rocksdb.rocksdb_files import Listing, encode_listing
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage import snapshot_metadata as metadata
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.snapshot_writer import SnapshotWriter, WriteOptions
from snapline.types import OperatorStateMode, SavepointFormat, SnapshotKind

Output = pytest.CaptureFixture[str]
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)


LISTING = encode_listing(Listing([], 0), [])


def _state(info: StateInfo, **columns: Any) -> Any:
    return memoryview(state_files.write(info, pa.table(columns), zstd=False))


def _write(directory: Path, number: int = 7) -> Path:
    """A checkpoint of a job in `directory`, whose first state has 60 rows, 30 per subtask."""
    objects, location = FileObjects(), f"{directory}/chk-{number}"
    subtasks = {}
    for index in range(2):
        writer = SnapshotWriter(
            objects,
            location,
            f"{directory}/shared",
            attempt=1,
            checkpoint_id=number,
            uid="count/words",
            subtask=index,
            options=WriteOptions(inline_bytes=0),
        )
        key_groups = KeyGroupRange(index * 5, index * 5 + 4)
        totals = _state(
            StateInfo("count/words", "totals", StateKind.VALUE, 10, ValueEncoding.ARROW),
            key_group=pa.array([group for group in key_groups for _ in range(6)], pa.int32()),
            key=[f"word-{group}-{row}" for group in key_groups for row in range(6)],
            value=pa.array([{"n": 1, "at": NOON, "raw": b"\xff"}] * 30),
        )
        objects_state = _state(
            StateInfo("count/words", "things", StateKind.OPERATOR_LIST, None, ValueEncoding.PICKLE),
            value=[pickle.dumps({"n": index})],
        )
        subtasks[index] = SubtaskState(
            (KeyedPart(key_groups, (writer.write("totals", totals),)),),
            (OperatorPart("things", OperatorStateMode.SPLIT, 1, writer.write("things", objects_state)),),
            (ChannelPart("[red]in->out", 0, index, writer.write("channel", b"12345")),),
        )
    native = KeyedPart(
        KeyGroupRange(0, 9), (StoredObject("inline:names", len(LISTING), data=LISTING),), native="rocksdb"
    )
    snapshot = Snapshot(
        number,
        SnapshotKind.CHECKPOINT,
        1,
        1_709_208_000_123,
        location,
        {
            "count/words": OperatorState("count/words", 2, 10, subtasks),
            "rocks\x1b[31m": OperatorState("rocks\x1b[31m", 1, 10, {0: SubtaskState((native,))}),
            "done": OperatorState("done", 3, 10, fully_finished=True),
        },
        {"hook": StoredObject("inline:h", 4, data=b"hook")},
    )
    objects.write(snapshot.metadata_path, metadata.encode(snapshot))
    return Path(location)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("jobs") / "7f3a"
    _write(directory, 6)
    _write(directory, 7)
    (directory / "chk-8").mkdir()
    (directory / "chk-8" / "a1-half").write_bytes(b"x")
    return directory


def _json(output: Output, *arguments: object) -> Any:
    assert cli.main(["inspect", "--json", *map(str, arguments)]) == 0
    captured = output.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def _text(output: Output, *arguments: object) -> str:
    assert cli.main(["inspect", *map(str, arguments)]) == 0
    captured = output.readouterr()
    assert captured.err == ""
    return captured.out


def _mistake(output: Output, *arguments: object) -> str:
    assert cli.main([str(argument) for argument in arguments]) == 2
    captured = output.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("snapline: ")
    return line


def test_a_snapshot_as_json(job: Path, capsys: Output) -> None:
    facts = _json(capsys, job / "chk-7")
    assert (facts["id"], facts["kind"], facts["format"]) == (7, "CHECKPOINT", None)
    assert facts["timestamp"] == "2024-02-29T12:00:00.123Z"
    assert facts["hooks"] == {"hook": 4}
    operator = facts["operators"][0]
    assert (operator["uid"], operator["parallelism"], operator["max_parallelism"]) == ("count/words", 2, 10)
    assert [it["key_groups"] for it in operator["subtasks"]] == [[[0, 4]], [[5, 9]]]
    state = operator["states"][0]
    assert (state["name"], state["kind"], state["rows"], state["subtasks"]) == ("totals", "value", 60, [0, 1])
    assert state["columns"]["key"] == "string"
    assert operator["in_flight"] == [{"edge": "[red]in->out", "side": "inputs", "channels": 2, "size_bytes": 10}]
    assert facts["operators"][1]["native"][0]["backend"] == "rocksdb"
    assert facts["operators"][2]["fully_finished"] is True


def test_a_snapshot_as_tables(job: Path, capsys: Output) -> None:
    text = _text(capsys, job / "chk-7" / "_metadata")
    assert "Checkpoint 7, taken at 2024-02-29T12:00:00.123Z by attempt 1" in text
    assert "Operator count/words: parallelism 2 of at most 10" in text
    assert "[red]in->out" in text
    assert "rocks\\x1b[31m" in text
    assert "\x1b" not in text
    (line,) = (line for line in text.splitlines() if line.startswith("totals"))
    assert "value struct<n: int64, at: timestamp[us, tz=UTC], raw: binary>" in line


def test_a_savepoint_says_its_format(tmp_path: Path, capsys: Output) -> None:
    snapshot = Snapshot(
        1, SnapshotKind.SYNC_SAVEPOINT, 2, 10**18, f"{tmp_path}/s", {}, format=SavepointFormat.CANONICAL
    )
    FileObjects().write(snapshot.metadata_path, metadata.encode(snapshot))
    assert "Sync savepoint 1, canonical, taken at 1000000000000000000 ms by attempt 2" in _text(capsys, tmp_path / "s")


def test_a_job_says_what_to_restore_from(job: Path, capsys: Output) -> None:
    facts = _json(capsys, job)
    assert [(it["id"], it["condition"]) for it in facts["checkpoints"]] == [
        (6, "complete"),
        (7, "complete"),
        (8, "half-written or never completed"),
    ]
    assert facts["restore_from"] == f"{job}/chk-7"
    text = _text(capsys, f"{job}/")
    assert f"Restore from {job}/chk-7: the newest complete one" in text
    assert "half-written or never completed: it has no _metadata" in text


def test_a_job_without_a_complete_checkpoint(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "chk-1").mkdir()
    (tmp_path / "chk-1" / "a1-x").write_bytes(b"")
    assert "Nothing to restore from: no checkpoint is complete." in _text(capsys, tmp_path)


def test_the_rows_of_a_state_as_json(job: Path, capsys: Output) -> None:
    shown = _json(capsys, job / "chk-7", "--state", "count/words/totals")
    assert (shown["uid"], shown["state"], shown["kind"]) == ("count/words", "totals", "value")
    assert len(shown["rows"]) == DEFAULT_LIMIT
    assert shown["has_more"] is True
    assert shown["rows"][0] == {
        "subtask": 0,
        "key_group": 0,
        "key": "word-0-0",
        "value": {"n": 1, "at": "2024-02-29T12:00:00Z", "raw": {"base64": "/w=="}},
    }


@pytest.mark.parametrize(
    ("options", "count", "has_more"),
    [
        (["--limit", "0"], 60, False),
        (["--limit", "60"], 60, False),
        (["--limit", "30"], 30, True),
        (["--limit", "1"], 1, True),
        (["--key-group", "5"], 6, False),
        (["--key-group", "5", "--subtask", "0"], 0, False),
        (["--subtask", "1", "--limit", "40"], 30, False),
    ],
)
def test_which_rows_are_shown(job: Path, capsys: Output, options: list[str], count: int, *, has_more: bool) -> None:
    shown = _json(capsys, job / "chk-7", "--state", "count/words/totals", *options)
    assert (len(shown["rows"]), shown["has_more"]) == (count, has_more)


def test_the_rows_of_a_state_as_a_table(job: Path, capsys: Output) -> None:
    text = _text(capsys, job / "chk-7", "--state", "count/words/totals", "--limit", "2")
    heading, columns, first, _, more = text.splitlines()
    assert heading == "count/words/totals: value"
    assert columns.split() == ["subtask", "key_group", "key", "value"]
    assert first.split()[:3] == ["0", "0", "word-0-0"]
    assert '"raw": {"base64": "/w=="}' in first
    assert more == "There are more rows than these 2; --limit 0 shows all."
    assert "no rows" in _text(
        capsys, job / "chk-7", "--state", "count/words/totals", "--subtask", "0", "--key-group", "9"
    )


def test_pickles_are_shown_by_size_unless_asked(job: Path, capsys: Output) -> None:
    arguments = [job / "chk-7", "--state", "count/words/things"]
    size = len(pickle.dumps({"n": 0}))
    assert [row["value"] for row in _json(capsys, *arguments)["rows"]] == [{"pickle": size}] * 2
    assert [row["value"] for row in _json(capsys, *arguments, "--unpickle")["rows"]] == [{"n": 0}, {"n": 1}]


def test_a_path_may_be_relative(job: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job / "chk-7")
    assert _json(capsys, ".")["location"] == f"{job}/chk-7"
    monkeypatch.chdir(job)
    assert _json(capsys, "chk-7/")["location"] == f"{job}/chk-7"
    assert _json(capsys, f"file://{job}/chk-7")["location"] == f"file://{job}/chk-7"


def test_mistakes_on_the_command_line(job: Path, capsys: Output) -> None:
    assert "COMMAND" in _mistake(capsys)
    assert "invalid choice" in _mistake(capsys, "other")
    assert "required: PATH" in _mistake(capsys, "inspect")
    assert "PATH is empty" in _mistake(capsys, "inspect", "")
    assert "'x' is not a number" in _mistake(capsys, "inspect", job, "--limit", "x")
    assert "'-1' is not a number" in _mistake(capsys, "inspect", job, "--limit=-1")
    assert "--key-group needs --state" in _mistake(capsys, "inspect", job, "--key-group", "1")
    assert "--unpickle needs --state" in _mistake(capsys, "inspect", job, "--unpickle")
    assert "name one of its checkpoints" in _mistake(capsys, "inspect", job, "--state", "a/b")


def test_mistakes_about_states(job: Path, capsys: Output) -> None:
    path = job / "chk-7"
    assert "the uids are: count/words, done" in _mistake(capsys, "inspect", path, "--state", "other/x")
    assert "there is: count/words/things, count/words/totals" in _mistake(
        capsys, "inspect", path, "--state", "count/words/x"
    )
    totals = ("inspect", path, "--state", "count/words/totals")
    assert "has no key group 10, but 0 to 9" in _mistake(capsys, *totals, "--key-group", "10")
    assert "has no subtask 2, but 0 to 1" in _mistake(capsys, *totals, "--subtask", "2")
    assert "there is: none" in _mistake(capsys, "inspect", path, "--state", "rocks\x1b[31m/x")


def test_paths_that_are_no_snapshot(job: Path, tmp_path: Path, capsys: Output) -> None:
    assert f"there is nothing at {tmp_path}/no" in _mistake(capsys, "inspect", tmp_path / "no")
    assert "half-written or never completed" in _mistake(capsys, "inspect", job / "chk-8")
    assert "holds the jobs 7f3a" in _mistake(capsys, "inspect", job.parent)
    _mistake(capsys, "inspect", "nonsense://x/y")
    assert "a1-half is a file; name" in _mistake(capsys, "inspect", job / "chk-8" / "a1-half")
    assert "/ is a whole file system" in _mistake(capsys, "inspect", "/")
    assert "names no bucket" in _mistake(capsys, "inspect", "s3://")


def test_damage(tmp_path: Path, capsys: Output) -> None:
    snapshot = _write(tmp_path / "job")
    state = next(path for path in snapshot.iterdir() if path.name.endswith("-0-totals"))
    state.write_bytes(state.read_bytes()[:-1])
    assert f"{state} has" in _mistake(capsys, "inspect", snapshot)
    state.unlink()
    assert f"{state}, a file of the snapshot, is not there" in _mistake(capsys, "inspect", snapshot)
    (snapshot / "_metadata").write_bytes(b"cut off")
    assert "is damaged" in _mistake(capsys, "inspect", snapshot)
    (snapshot / "_metadata").write_bytes(b'{"format":"snapline-snapshot","version":3}\n')
    assert "written by a newer Snapline (format 3, this one reads up to 2); upgrade" in _mistake(
        capsys, "inspect", snapshot
    )


def test_a_missing_extra_is_one_line_too(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoS3(FileObjects):
        def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
            raise ConfigurationError("s3 needs a package that is not installed:\npip install 'snapline[s3]'")

    monkeypatch.setattr(storage_access, "FileObjects", NoS3)
    assert "pip install 'snapline[s3]'" in _mistake(capsys, "inspect", "s3://bucket/chk-1")


@pytest.mark.parametrize("name", [b"caf\xc3\xa9", b"no text \xff"])
def test_names_that_the_terminal_cannot_show(tmp_path: Path, name: bytes) -> None:
    directory = tmp_path / os.fsdecode(name)
    _write(directory)
    for options in ([], ["--json"]):
        command = [sys.executable, "-m", "snapline", "inspect", str(directory / "chk-7"), *options]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
        assert done.stderr == b""
        if options:
            assert json.loads(done.stdout)["location"] == str(directory / "chk-7")


def test_help_and_version(capsys: Output) -> None:
    for arguments in (["--help"], ["inspect", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "RUNS CODE FROM THE FILE" in " ".join(text.split())
    assert "snapline 0." in text


def test_it_runs_as_a_module_and_stops_quietly_when_nobody_reads(job: Path) -> None:
    command = [sys.executable, "-m", "snapline", "inspect", str(job / "chk-7"), "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(finished.stdout)["id"] == 7
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        finished = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert finished.stderr == ""


def test_how_to_reach_s3_is_given_by_reference(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.delenv("STORE_SECRET", raising=False)
    for given, complaint in (
        (["endpoint"], "--s3 endpoint: not NAME=VALUE"),
        (["secret=hunter2"], "secret: not a reference; write env:NAME or file:PATH"),
        (["user=me"], "S3 has no option 'user'"),
        (["key=env:STORE_SECRET", "secret=env:STORE_SECRET"], "Secret.env('STORE_SECRET') is not set"),
    ):
        assert cli.main(["inspect", "s3://bucket/job", *(part for it in given for part in ("--s3", it))]) == 2
        said = capsys.readouterr()
        assert complaint in said.err
        assert "hunter2" not in said.out + said.err

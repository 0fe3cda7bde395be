"""A function on the driver: what it is called with and how often, and what is left of the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable, Permit, SinkContext
from snapline.errors import ConfigurationError, RestoreError, StorageError, UserCodeError

SCHEMA = pa.schema([("x", pa.int64())])
PERMIT = Permit(1, 9)
NAME = "job.1/out.commit/0/1/{}/0"


def read_tables(paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([pq.read_table(path, schema=schema) for path in paths])


class Calls:
    """A function that cannot be pickled, as one that has a SparkSession."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[int]]] = []
        self.error: Exception | None = None

    def __call__(self, frame: pa.Table, batch_id: int) -> None:
        self.seen.append((batch_id, frame["x"].to_pylist()))
        if self.error is not None:
            raise self.error

    def __reduce__(self) -> Any:
        raise AssertionError("the function stays on the driver")


def made(directory: Path) -> tuple[sl.sinks.ForeachDataFrame, Calls]:
    calls = Calls()
    sink = sl.sinks.ForeachDataFrame(calls, directory)
    sink.check(SCHEMA)
    sink.use_session(read_tables, SCHEMA, None)
    sink.check_access()
    return sink, calls


def staged(sink: sl.sinks.ForeachDataFrame, checkpoint_id: int, *numbers: int, subtasks: int = 2) -> Committable:
    """What subtasks prepare."""
    payload: list[Any] = []
    for subtask in range(subtasks):
        copy = cloudpickle.loads(cloudpickle.dumps(sink))
        writer = copy.writer(SinkContext("job", "out", subtask, subtasks, 1, "job.1"))
        writer.write(pa.record_batch({"x": numbers[subtask::subtasks]}))
        payload += writer.prepare(checkpoint_id)
        writer.close()
    return Committable(NAME.format(checkpoint_id), checkpoint_id, payload)


def committer(sink: sl.sinks.ForeachDataFrame) -> Any:
    return sink.global_committer(SinkContext("job", "out", 0, 1, 1, "job.1"))


def test_one_call_has_the_rows_of_all_subtasks_and_the_files_go(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    prepared = staged(sink, 3, 1, 2, 3)
    assert all(Path(path).is_file() for path in prepared.payload)
    assert committer(sink).commit(prepared, PERMIT) is CommitResult.COMMITTED
    assert calls.seen == [(0, [1, 3, 2])]
    assert list(tmp_path.rglob("*.parquet")) == []
    assert committer(sink).commit(prepared, PERMIT) is CommitResult.ALREADY_COMMITTED
    assert len(calls.seen) == 1
    assert (sink.committed_until("job.1", "out"), sink.committed_until("job.2", "out")) == (3, None)


def test_a_function_that_failed_is_called_again_with_the_same(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    prepared = staged(sink, 1, 1, 2)
    calls.error = KeyError("broken")
    with pytest.raises(UserCodeError, match="the function of the sink 'out' raised KeyError: 'broken', for batch 0"):
        committer(sink).commit(prepared, PERMIT)
    calls.error = ConnectionResetError("away")
    assert committer(sink).commit(prepared, PERMIT) is CommitResult.RETRY_LATER
    calls.error = None
    assert committer(sink).commit(prepared, PERMIT) is CommitResult.COMMITTED
    assert calls.seen == [(0, [1, 2])] * 3


def test_batches_are_counted_also_by_a_job_that_was_restored(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    for checkpoint_id in (3, 7, 8):
        committer(sink).commit(staged(sink, checkpoint_id, 1), PERMIT)
    restored = Committable(NAME.format(2).replace("job.1", "job.2"), 2, staged(sink, 2, 5).payload)
    committer(sink).commit(restored, PERMIT)
    other = Committable(NAME.format(1).replace("job.1", "jobs.1"), 1, staged(sink, 1, 6).payload)
    sink.global_committer(SinkContext("jobs", "out", 0, 1, 1, "jobs.1")).commit(other, PERMIT)
    assert calls.seen == [(0, [1]), (1, [1]), (2, [1]), (3, [5]), (0, [6])]


def test_notes_without_batch_ids_go_on_behind_their_checkpoints(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    committer(sink).commit(staged(sink, 3, 1), PERMIT)
    (note,) = (tmp_path / ".committed").rglob("job.1")
    note.write_text("3")
    committer(sink).commit(staged(sink, 4, 2), PERMIT)
    assert calls.seen[1:] == [(4, [2])]


def test_without_rows_it_is_called_where_a_call_is_due(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    sink.calls_without_rows = True
    for checkpoint_id, is_due in enumerate((False, True, False), 1):
        sink.is_call_due = is_due
        assert committer(sink).commit(empty(sink, checkpoint_id), PERMIT) is CommitResult.COMMITTED
        assert sink.committed_until("job.1", "out") == checkpoint_id
    committer(sink).commit(staged(sink, 4, 1), PERMIT)
    assert calls.seen == [(0, []), (1, [1])]
    assert list(tmp_path.rglob("*.parquet")) == []


def empty(sink: sl.sinks.ForeachDataFrame, checkpoint_id: int) -> Committable:
    """What subtasks prepare that have written nothing."""
    payload: list[Any] = []
    for subtask in range(2):
        copy = cloudpickle.loads(cloudpickle.dumps(sink))
        payload += copy.writer(SinkContext("job", "out", subtask, 2, 1, "job.1")).prepare(checkpoint_id)
    assert len(payload) == 1
    return Committable(NAME.format(checkpoint_id), checkpoint_id, payload)


def test_files_that_are_gone_are_no_silent_loss(tmp_path: Path) -> None:
    sink, calls = made(tmp_path)
    prepared = staged(sink, 1, 1, 2)
    os.unlink(prepared.payload[0])
    with pytest.raises(StorageError, match=r"is gone\. Delete nothing in"):
        committer(sink).commit(prepared, PERMIT)
    assert calls.seen == []


def test_a_snapshot_cannot_name_other_files(tmp_path: Path) -> None:
    sink, calls = made(tmp_path / "staged")
    prepared = staged(sink, 1, 1, 2)
    secret = tmp_path / "1-1-0-abcdef.parquet"
    secret.write_bytes(Path(prepared.payload[0]).read_bytes())
    link = Path(prepared.payload[0]).with_name("1-1-0-abcdef.parquet")
    link.symlink_to(secret)
    for path in (
        secret,
        link,
        Path(prepared.payload[0]).with_name("x"),
        tmp_path / "staged/.pending/../../1-1-0-a.parquet",
    ):
        with pytest.raises(RestoreError, match="is no file of this sink"):
            committer(sink).commit(Committable(NAME.format(1), 1, [str(path)]), PERMIT)
    with pytest.raises(UserCodeError, match="was prepared by another kind of sink"):
        committer(sink).commit(Committable(NAME.format(1), 1, [{"message": b""}]), PERMIT)
    assert secret.exists()
    assert calls.seen == []


def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give a function of a DataFrame and a batch id"):
        sl.sinks.ForeachDataFrame(42)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="only directories of the local file system"):
        sl.sinks.ForeachDataFrame(print, "s3://bucket/x")
    with pytest.raises(ConfigurationError, match="needs a SparkSession"):
        sl.sinks.ForeachDataFrame(print, tmp_path).check_access()
    sink = sl.sinks.ForeachDataFrame(print)
    sink.use_session(read_tables, SCHEMA, None)
    with pytest.raises(ConfigurationError, match="give one with directory="):
        sink.check_access()
    (tmp_path / "file").touch()
    sink.use_session(read_tables, SCHEMA, str(tmp_path / "file" / "x"))
    with pytest.raises(ConfigurationError, match="share and may write to"):
        sink.check_access()

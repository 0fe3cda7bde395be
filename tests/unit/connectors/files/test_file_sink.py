"""Files: nothing is seen before its commit, everything after it, and attempts do not disturb each other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.connectors.files.file_sink import Files, read_files
from snapline.errors import ConfigurationError, RestoreError, StorageError

PERMIT = sl.Permit(9, 99)


def writer(
    directory: Path, attempt: int = 1, subtask: int = 0, *, job: str = "job", uid: str = "out", **options: Any
) -> Any:
    return Files(directory, **options).writer(sl.SinkContext(job, uid, subtask, 2, attempt))


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def prepared(made: Any, checkpoint_id: int, *values: int) -> sl.Committable:
    made.write(rows(*values))
    (payload,) = made.prepare(checkpoint_id)
    return sl.Committable(f"name/{checkpoint_id}", checkpoint_id, payload)


def seen(directory: Path) -> list[int]:
    table = read_files(directory)
    return sorted(table.column("x").to_pylist()) if table.num_columns else []


def pending(directory: Path) -> list[str]:
    return sorted(
        "-".join(path.name.split("-")[:3]) for path in (directory / ".pending").rglob("*-*") if path.is_file()
    )


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl", "arrow"])
def test_rows_are_seen_after_their_commit(tmp_path: Path, format: str) -> None:
    made = writer(tmp_path, format=format)
    made.write(rows(1, 2))
    made.write(rows(3))
    assert seen(tmp_path) == []
    assert pending(tmp_path) == ["1-open-0"]
    (payload,) = made.prepare(5)
    assert seen(tmp_path) == []
    assert pending(tmp_path) == ["1-5-0"]
    committable = sl.Committable("a", 5, payload)
    assert made.commit(committable, PERMIT) is sl.CommitResult.COMMITTED
    assert seen(tmp_path) == [1, 2, 3]
    assert pending(tmp_path) == []
    (name,) = [path.name for path in tmp_path.iterdir() if path.is_file()]
    assert name.startswith("out-0000000005-0-1-")
    assert name.endswith(f".{format}")
    assert made.commit(committable, PERMIT) is sl.CommitResult.ALREADY_COMMITTED
    assert seen(tmp_path) == [1, 2, 3]


def test_lines_of_another_format(tmp_path: Path) -> None:
    made = writer(tmp_path, format="text", suffix="csv", first_line="a,b", partition_by=["k"])
    made.write(pa.record_batch({"k": ["x", "y", "x"], "line": ["1,2", "3,4", "5,6"]}))
    for number, payload in enumerate(made.prepare(1)):
        made.commit(sl.Committable(f"name/{number}", 1, payload), PERMIT)
    found = {path.parent.name: path.read_text() for path in tmp_path.glob("k=*/*.csv")}
    assert found == {"k=x": "a,b\n1,2\n5,6\n", "k=y": "a,b\n3,4\n"}
    others: list[dict[str, Any]] = [{"suffix": "csv"}, {"format": "text", "suffix": "../a"}, {"first_line": "a"}]
    for wrong in others:
        with pytest.raises(ConfigurationError, match="suffix"):
            writer(tmp_path, **wrong)


def test_without_rows_there_is_nothing_to_commit(tmp_path: Path) -> None:
    assert list(writer(tmp_path).prepare(1)) == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_another_process_of_another_attempt_can_commit(tmp_path: Path) -> None:
    committable = prepared(writer(tmp_path), 5, 1)
    later = writer(tmp_path, attempt=2, subtask=1)
    later.abort_newer(5)
    assert later.commit(committable, PERMIT) is sl.CommitResult.COMMITTED
    assert seen(tmp_path) == [1]


def test_a_restored_commit_goes_where_it_was_prepared_for(tmp_path: Path) -> None:
    committable = prepared(writer(tmp_path / "old"), 5, 1)
    other = writer(tmp_path / "new", attempt=1, job="fork", earlier_directories=[tmp_path / "old"])
    other.abort_newer(5)
    assert other.commit(committable, PERMIT) is sl.CommitResult.COMMITTED
    assert other.commit(committable, PERMIT) is sl.CommitResult.ALREADY_COMMITTED
    assert seen(tmp_path / "old") == [1]


def test_nothing_is_committed_in_a_directory_the_sink_was_not_given(tmp_path: Path) -> None:
    committable = prepared(writer(tmp_path / "old"), 5, 1)
    with pytest.raises(RestoreError, match="earlier_directories"):
        writer(tmp_path / "new").commit(committable, PERMIT)
    assert pending(tmp_path / "old") == ["1-5-0"]


def test_no_other_file_is_moved_whatever_a_snapshot_names(tmp_path: Path) -> None:
    made, elsewhere = writer(tmp_path / "out"), tmp_path / "elsewhere"
    good = prepared(made, 5, 1).payload
    prepared_path, final = Path(good["pending"]), Path(good["final"])
    elsewhere.mkdir()
    treasure = elsewhere / prepared_path.name
    treasure.write_text("mine")
    (prepared_path.parent / "9-9-9-aa.parquet").symlink_to(treasure)
    (prepared_path.parents[1] / "link").symlink_to(elsewhere)
    for forged in (
        {**good, "pending": str(treasure)},
        {**good, "pending": str(prepared_path.parents[1] / "link" / prepared_path.name)},
        {**good, "pending": f"{prepared_path.parent}/../../../../elsewhere/{prepared_path.name}"},
        {**good, "pending": str(final)},
        {**good, "final": str(elsewhere / final.name)},
        {**good, "final": f"{tmp_path}/out/../elsewhere/{final.name}"},
        {**good, "final": str(tmp_path / "out" / "other-name")},
        {
            "pending": str(prepared_path.parent / "9-9-9-aa.parquet"),
            "final": str(tmp_path / "out" / "out-0000000009-9-9-aa.parquet"),
        },
    ):
        with pytest.raises(RestoreError):
            made.commit(sl.Committable("forged", 5, forged), PERMIT)
    assert treasure.read_text() == "mine"
    assert seen(tmp_path / "out") == []
    assert made.commit(sl.Committable("good", 5, good), PERMIT) is sl.CommitResult.COMMITTED


def test_only_what_older_attempts_of_the_same_sink_have_newer_is_dropped(tmp_path: Path) -> None:
    old = writer(tmp_path, attempt=2)
    for checkpoint_id in (4, 5, 6):
        prepared(old, checkpoint_id, checkpoint_id)
    old.write(rows(7))
    prepared(writer(tmp_path, attempt=3, subtask=1), 6, 8)
    prepared(writer(tmp_path, attempt=1, uid="other"), 6, 9)
    prepared(writer(tmp_path, attempt=1, job="other"), 6, 9)
    strange = tmp_path / ".pending" / "job" / "out" / "README-x"
    strange.write_text("not ours")
    writer(tmp_path, attempt=3).abort_newer(5)
    assert pending(tmp_path) == ["1-6-0", "1-6-0", "2-4-0", "2-5-0", "3-6-1", "README-x"]
    old.close()


def test_a_zombie_cannot_prepare_and_its_late_commit_changes_nothing(tmp_path: Path) -> None:
    zombie = writer(tmp_path, attempt=1)
    done = prepared(zombie, 5, 1)
    lost = prepared(zombie, 6, 2)
    zombie.write(rows(3))
    successor = writer(tmp_path, attempt=2)
    successor.abort_newer(5)
    assert successor.commit(done, PERMIT) is sl.CommitResult.COMMITTED
    again = prepared(successor, 6, 2, 3)
    with pytest.raises(StorageError, match="a newer attempt of the job has taken over"):
        zombie.prepare(7)
    assert zombie.commit(done, PERMIT) is sl.CommitResult.ALREADY_COMMITTED
    with pytest.raises(StorageError, match="cannot be committed: there is neither"):
        zombie.commit(lost, PERMIT)
    zombie.write(rows(4))
    zombie.close()
    assert successor.commit(again, PERMIT) is sl.CommitResult.COMMITTED
    assert seen(tmp_path) == [1, 2, 3]
    assert pending(tmp_path) == []


def test_attempts_that_count_from_the_beginning_again_do_not_overwrite(tmp_path: Path) -> None:
    for value in (1, 2):
        made = writer(tmp_path, attempt=1)
        made.abort_newer(-1)
        assert made.commit(prepared(made, 1, value), PERMIT) is sl.CommitResult.COMMITTED
    assert seen(tmp_path) == [1, 2]


def test_what_was_not_prepared_is_gone_when_the_writer_is_closed(tmp_path: Path) -> None:
    made = writer(tmp_path)
    made.write(rows(1))
    made.close()
    assert pending(tmp_path) == []
    made.close()


def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for value in range(50):
        made.write(rows(value))
    (payload,) = made.prepare(1)
    assert pq.ParquetFile(payload["pending"]).num_row_groups == 1
    assert seen(tmp_path) == []


def test_many_rows_do_not_wait_in_memory(tmp_path: Path) -> None:
    made = writer(tmp_path)
    for _ in range(3):
        made.write(rows(*range(65_536)))
    (path,) = (tmp_path / ".pending").rglob("*.parquet")
    assert os.path.getsize(path) > 0
    (payload,) = made.prepare(1)
    assert pq.ParquetFile(payload["pending"]).num_row_groups == 3


def test_a_file_that_is_large_enough_is_followed_by_another(tmp_path: Path) -> None:
    made = writer(tmp_path, format="jsonl", max_file_size="1kb")
    for start in range(0, 300, 100):
        made.write(rows(*range(start, start + 100)))
    payloads = list(made.prepare(1))
    assert len(payloads) > 1
    for number, payload in enumerate(payloads):
        made.commit(sl.Committable(f"a/{number}", 1, payload), PERMIT)
    assert seen(tmp_path) == list(range(300))
    made.write(rows(*range(500)))
    assert pending(tmp_path) == ["1-open-0"]
    made.close()
    assert pending(tmp_path) == []


def test_files_and_directories_are_on_disk_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        events.append(("sync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).partition("-")[2][:4]))
        real_fsync(descriptor)

    def rename(source: Any, target: Any) -> None:
        events.append(("rename", ""))
        real_rename(source, target)

    made = writer(tmp_path)
    made.write(rows(1))
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    (payload,) = made.prepare(1)
    assert events == [("sync", "open"), ("rename", ""), ("sync", "")]
    events.clear()
    made.commit(sl.Committable("a", 1, payload), PERMIT)
    assert [event[0] for event in events] == ["rename", "sync"]


def test_wrong_settings_and_schemas_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="use one of 'parquet', 'csv', 'jsonl', 'text', 'orc', 'arrow'"):
        Files(tmp_path, format="avro")
    with pytest.raises(ConfigurationError, match=r"max_file_size=0\): use more"):
        Files(tmp_path, max_file_size=0)
    with pytest.raises(ConfigurationError, match="cannot hold these rows: Unsupported Type:list"):
        Files(tmp_path, format="csv").check(pa.schema([("l", pa.list_(pa.int8()))]))
    with pytest.raises(ConfigurationError, match="only directories of the local file system"):
        Files("s3://bucket/x")
    with pytest.raises(ConfigurationError, match="'t' is in nanoseconds"):
        Files(tmp_path, format="jsonl").check(pa.schema([("t", pa.timestamp("ns"))]))
    with pytest.raises(ConfigurationError, match="cannot hold these rows"):
        Files(tmp_path).check(pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))]))
    Files(tmp_path).check(pa.schema([("t", pa.timestamp("ns"))]))
    assert list(tmp_path.iterdir()) == []


def test_a_relative_directory_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sink = Files("out")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    made: Any = sink.writer(sl.SinkContext("job", "out", 0, 1, 1))
    made.commit(prepared(made, 1, 5), PERMIT)
    assert seen(tmp_path / "out") == [5]


def test_names_as_long_as_they_may_be_fit_into_the_file_system(tmp_path: Path) -> None:
    made = writer(tmp_path, attempt=10**6, subtask=32767, job="j" * 128, uid="u" * 128)
    assert made.commit(prepared(made, 10**12, 1), PERMIT) is sl.CommitResult.COMMITTED


def test_a_directory_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    Files(tmp_path / "a" / "b").check_access()
    assert list(tmp_path.iterdir()) == []
    prepared(writer(tmp_path / "a"), 1, 5)
    before = sorted(tmp_path.rglob("*"))
    Files(tmp_path / "a").check_access()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("below", ["file", "file/out"])
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=rf"Files\('{tmp_path}/{below}'\): .*; use a directory that"):
        Files(tmp_path / below).check_access()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ConfigurationError, match="Permission denied"):
        Files(tmp_path / "out").check_access()


def test_partitions_are_directories_and_are_committed_exactly_once(tmp_path: Path) -> None:
    batch = pa.record_batch({"x": [1, 2, 3], "k": pa.array([7, 8, 7], pa.int32()), "s": ["a", None, "a"]})
    sink = Files(tmp_path, partition_by=["k", "s"])
    sink.check(batch.schema)
    made: Any = sink.writer(sl.SinkContext("job", "out", 0, 2, 1, "line"))
    made.write(batch)
    made.write(batch.slice(0, 1))
    payloads = made.prepare(4)
    assert sink.committed_until("line", "out") is None
    for number, payload in enumerate(payloads):
        committable = sl.Committable(f"name/{number}", 4, payload)
        assert made.commit(committable, PERMIT) is sl.CommitResult.COMMITTED
        assert made.commit(committable, PERMIT) is sl.CommitResult.ALREADY_COMMITTED
    assert sink.committed_until("line", "out") == 4
    places = {path.parent.relative_to(tmp_path).as_posix(): path for path in tmp_path.glob("*/*/*.parquet")}
    assert set(places) == {"k=7/s=a", "k=8/s=__HIVE_DEFAULT_PARTITION__"}
    assert pq.read_table(places["k=7/s=a"], partitioning=None).to_pydict() == {"x": [1, 3, 1]}


@pytest.mark.parametrize("final", ["../k=7/file.parquet", "k=7/../../k=7/file.parquet", "k=7/other/file.parquet"])
def test_no_other_directory_is_taken_for_a_partition(tmp_path: Path, final: str) -> None:
    made = writer(tmp_path / "out", partition_by=["k"])
    made.write(pa.record_batch({"x": [1], "k": [7]}))
    (payload,) = made.prepare(4)
    name = Path(payload["final"]).name
    moved = {**payload, "final": str(tmp_path / "out" / final.replace("file.parquet", name))}
    with pytest.raises(RestoreError):
        made.commit(sl.Committable("name/4", 4, moved), PERMIT)


def test_many_partitions_keep_few_files_open(tmp_path: Path) -> None:
    made = writer(tmp_path, partition_by=["k"])
    made.write(pa.record_batch({"x": list(range(300)), "k": list(range(300))}))
    assert len(made._open) == 100
    assert len(made.prepare(1)) == 300


def test_columns_that_cannot_name_directories_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.float64()), ("k", pa.int32())])
    for columns, complaint in ((["x"], "whole numbers"), (["no"], "there are"), (["k"], None)):
        sink = Files(tmp_path, partition_by=columns)
        if complaint is None:
            sink.check(schema)
        else:
            with pytest.raises(ConfigurationError, match=complaint):
                sink.check(schema)
    with pytest.raises(ConfigurationError, match="all columns"):
        Files(tmp_path, partition_by=["k"]).check(pa.schema([("k", pa.int32())]))

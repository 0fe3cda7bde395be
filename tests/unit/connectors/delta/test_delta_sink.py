"""The Delta sink: settings, tables that are there, evolution, upserts, and errors that say what to do."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from tests.integration.delta.delta_kit import PERMIT, begun, context, prepared

import snapline as sl
from snapline.contracts.sink import CommitResult, Committable
from snapline.errors import ConfigurationError, RestoreError, UserCodeError

ROWS = pa.record_batch({"x": [1, 2], "s": ["a", "b"]})


def committed(sink: sl.Sink, *committables: Committable, attempt: int = 1) -> list[CommitResult]:
    committer = sink.global_committer(context(attempt=attempt))
    return [committer.commit(each, PERMIT) for each in committables]  # type: ignore[misc]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table().to_pylist(), key=lambda row: str(row))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"mode": "overwrite"}, "use one of 'append', 'upsert'"),
        ({"mode": "upsert"}, "needs key="),
        ({"key": "x"}, "has no use for key="),
        ({"new_columns": "drop"}, "use one of 'add', 'fail'"),
        ({"max_file_size": 0}, "use more"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sinks.Delta(tmp_path / "t", **settings)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    for make in (sl.sinks.Delta, sl.sources.Delta):
        with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[delta\]'"):
            make(tmp_path / "t")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"mode": "upsert", "key": "y"}, "key names 'y'"),
        ({"mode": "upsert", "key": "l"}, "use a plain one"),
        ({"partition_by": "y"}, "partition_by names 'y'"),
    ],
)
def test_settings_must_fit_the_rows(tmp_path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sinks.Delta(tmp_path / "t", **settings).check(pa.schema([("x", pa.int64()), ("l", pa.list_(pa.int64()))]))


def test_a_table_is_created_with_its_description_and_properties(tmp_path: Path) -> None:
    properties = {"delta.checkpointInterval": "7"}
    begun(sl.sinks.Delta(tmp_path / "t", partition_by="s", description="rows", properties=properties), ROWS)
    table = deltalake.DeltaTable(tmp_path / "t")
    assert table.metadata().description == "rows"
    assert table.metadata().configuration == {**properties, "delta.logRetentionDuration": "interval 7 days"}
    assert table.metadata().partition_columns == ["s"]
    with pytest.raises(ConfigurationError, match="create=True"):
        begun(sl.sinks.Delta(tmp_path / "other", create=False), ROWS)


def test_a_directory_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="has files and is not a Delta table"):
        begun(sl.sinks.Delta(tmp_path), ROWS)


def test_a_place_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="may write to"):
        sl.sinks.Delta(tmp_path / "file" / "t").check_access()
    sl.sinks.Delta(tmp_path / "new").check_access()
    assert os.listdir(tmp_path) == ["file"], "a check leaves nothing behind"


def test_tables_with_rules_that_files_would_break_are_refused(tmp_path: Path) -> None:
    for name, properties, settings, complaint in (
        ("only", {"delta.appendOnly": "true"}, {"mode": "upsert", "key": "x"}, "takes no changes"),
        ("other", {}, {"partition_by": "s"}, r"is partitioned by \[\], not by \['s'\]"),
    ):
        deltalake.DeltaTable.create(tmp_path / name, ROWS.schema, configuration=properties)
        with pytest.raises(ConfigurationError, match=complaint):
            begun(sl.sinks.Delta(tmp_path / name, **settings), ROWS)  # type: ignore[arg-type]
    table = deltalake.DeltaTable.create(tmp_path / "checked", ROWS.schema)
    table.alter.add_constraint({"positive": "x > 0"})
    with pytest.raises(ConfigurationError, match="CHECK constraints"):
        begun(sl.sinks.Delta(tmp_path / "checked"), ROWS)


def test_new_columns_are_added_and_older_rows_have_none(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path), ROWS)
    old = prepared(sink, ROWS, 1)
    committed(sink, old)
    wider = pa.record_batch({"x": [3], "s": ["c"], "y": [0.5]})
    with pytest.raises(ConfigurationError, match="the table has no column 'y'"):
        begun(sl.sinks.Delta(path, new_columns="fail"), wider)
    committed(sink, prepared(begun(sl.sinks.Delta(path), wider), wider, 2))
    assert [row["y"] for row in rows_of(path)] == [None, None, 0.5]
    narrow = pa.record_batch({"x": [4]})
    committed(sink, prepared(begun(sl.sinks.Delta(path), narrow), narrow, 3))
    assert rows_of(path)[-1] == {"x": 4, "s": None, "y": None}
    with pytest.raises(ConfigurationError, match="is int64 in the table and string in the rows"):
        begun(sl.sinks.Delta(path), pa.record_batch({"x": ["text"]}))


def test_a_table_that_is_changed_while_the_job_runs_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path), ROWS)
    waiting = prepared(sink, ROWS, 1)
    deltalake.write_deltalake(path, pa.table({"x": ["text"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConfigurationError, match="is string in the table and int64 in the rows"):
        committed(sink, waiting)
    shutil.rmtree(path)
    with pytest.raises(UserCodeError, match="It was there when the job started: bring it back"):
        committed(sink, waiting)


def test_a_vacuumed_file_is_never_named_by_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path), ROWS)
    waiting = prepared(sink, ROWS, 1)
    deltalake.DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    with pytest.raises(RestoreError, match="VACUUM with a short retention"):
        committed(sink, waiting)
    assert deltalake.DeltaTable(path).version() < 5
    assert rows_of(path) == []


def test_only_own_files_get_into_the_table(tmp_path: Path) -> None:
    sink = begun(sl.sinks.Delta(tmp_path / "t"), ROWS)
    waiting = prepared(sink, ROWS, 1)
    for path in ("../secret.parquet", "/etc/passwd", "part-x.parquet"):
        waiting.payload[0]["files"][0]["path"] = path
        with pytest.raises(RestoreError, match="does not name a file that this sink has written"):
            committed(sink, waiting)


def test_the_mode_cannot_change_under_what_is_prepared(tmp_path: Path) -> None:
    sink = begun(sl.sinks.Delta(tmp_path / "t"), ROWS)
    waiting = prepared(sink, ROWS, 1)
    with pytest.raises(RestoreError, match="start once with the old mode"):
        committed(sl.sinks.Delta(tmp_path / "t", mode="upsert", key="x"), waiting)


def test_ids_of_another_lineage_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path), ROWS)
    committed(sink, prepared(sink, ROWS, 5))
    assert sink.committed_until("line", "out") == 5
    assert sink.committed_until("other", "out") is None
    first = prepared(sink, ROWS, 1, lineage="other")
    assert committed(sink, first, first) == [CommitResult.COMMITTED, CommitResult.ALREADY_COMMITTED]
    assert len(rows_of(path)) == 4
    assert sl.sinks.Delta(tmp_path / "none").committed_until("line", "out") is None


def test_the_last_row_of_a_key_replaces_the_one_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path, mode="upsert", key=["x"]), ROWS)
    first = prepared(sink, pa.record_batch({"x": [1, 2, 1], "s": ["a", "b", "c"]}), 1)
    second = prepared(sink, pa.record_batch({"x": [2, 3], "s": ["d", None]}), 2)
    committed(sink, first, second)
    expected = [{"x": 1, "s": "c"}, {"x": 2, "s": "d"}, {"x": 3, "s": None}]
    assert rows_of(path) == expected
    assert committed(sink, first) == [CommitResult.ALREADY_COMMITTED], "a late commit of an old checkpoint"
    assert rows_of(path) == expected
    assert list((path / "_snapline").rglob("*.parquet")) == []
    with pytest.raises(UserCodeError, match="no value in the key column 'x'"):
        prepared(sink, pa.record_batch({"x": pa.array([None], pa.int64()), "s": ["a"]}), 3)


def test_rows_that_a_merge_will_read_count_as_kept(tmp_path: Path) -> None:
    sinks = {"append": sl.sinks.Delta(tmp_path / "a"), "upsert": sl.sinks.Delta(tmp_path / "u", mode="upsert", key="x")}
    kept = {}
    for mode, sink in sinks.items():
        sink.check(ROWS.schema)
        sink.starting("job")
        writer = sink.writer(context())
        writer.write(ROWS)
        writer.write(ROWS)
        before = writer.kept_bytes
        writer.prepare(1)
        kept[mode] = before, writer.kept_bytes
        writer.close()
    assert kept == {"append": (0, 0), "upsert": (2 * ROWS.nbytes, 0)}


def test_upserts_work_in_partitions_and_with_fewer_columns(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path, mode="upsert", key=["x", "s"], partition_by="s"), ROWS)
    committed(sink, prepared(sink, ROWS, 1))
    wider = pa.record_batch({"x": [1, 1], "s": ["a", "b"], "y": [1, 2]})
    sink = begun(sl.sinks.Delta(path, mode="upsert", key=["x", "s"]), wider)
    committed(sink, prepared(sink, wider, 2))
    assert rows_of(path) == [
        {"x": 1, "s": "a", "y": 1},
        {"x": 1, "s": "b", "y": 2},
        {"x": 2, "s": "b", "y": None},
    ]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_only_what_dead_attempts_left_is_deleted(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    settings: dict[str, Any] = {"mode": mode, "key": ["x"] if mode == "upsert" else []}
    sink = begun(sl.sinks.Delta(path, **settings), ROWS)
    committed(sink, prepared(sink, ROWS, 1))
    dead = sink.writer(context(attempt=1))
    dead.abort_newer(-1)
    dead.write(ROWS)
    kept = Committable("kept", 2, list(dead.prepare(2)))
    dead.write(ROWS)
    dead.prepare(3)
    mine = sink.writer(context(attempt=2))
    mine.abort_newer(2)
    mine.write(ROWS)
    other = sink.writer(context(attempt=1, lineage="other"))
    other.write(ROWS)
    before = len(list(path.rglob("part-*.parquet")))
    sink.global_committer(context(attempt=2)).abort_newer(2)
    assert len(list(path.rglob("part-*.parquet"))) == before - 1
    assert committed(sink, kept, attempt=2) == [CommitResult.COMMITTED]


@pytest.mark.slow
def test_the_log_has_checkpoints_after_many_commits(tmp_path: Path) -> None:
    path = tmp_path / "t"
    sink = begun(sl.sinks.Delta(path), ROWS)
    committer = sink.global_committer(context())
    for number in range(1, 110):
        committer.commit(prepared(sink, ROWS, number), PERMIT)
    assert (path / "_delta_log" / "_last_checkpoint").exists()
    assert sink.committed_until("line", "out") == 109

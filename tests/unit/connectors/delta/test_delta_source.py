"""The Delta source: versions, later versions, and errors that say what to do."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import snapline as sl
from snapline.connectors.delta import delta_source
from snapline.contracts.source import ReaderContext, Wait
from snapline.errors import ConfigurationError, RestoreError, StorageError


def write(path: Path, *numbers: int, **options: Any) -> None:
    deltalake.write_deltalake(path, pa.table({"x": pa.array(numbers, pa.int64())}), mode="append", **options)


def read(source: sl.Source, splits: Any) -> list[dict[str, Any]]:
    reader = source.reader(ReaderContext("job", "source", 0, 1))
    for split in splits:
        reader.add_split(split, None)
    rows: list[dict[str, Any]] = []
    while (batch := reader.read()) is not None:
        if not isinstance(batch, Wait):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema == source.schema
            rows += batch.to_pylist()
    reader.close()
    return rows


def numbers(source: sl.Source, splits: Any) -> list[int]:
    return sorted(row["x"] for row in read(source, splits))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "t", 0, 1)
    return tmp_path / "t"


def test_a_version_is_read(path: Path) -> None:
    write(path, 2)
    newest, first = sl.sources.Delta(path), sl.sources.Delta(path, version=0)
    assert numbers(newest, newest.splits(2)) == [0, 1, 2]
    assert numbers(first, first.splits(2)) == [0, 1]
    assert newest.is_bounded


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"version": 9}, "version|9"),
        ({"version": -1}, "give the number of a version"),
        ({"on_change": "skip"}, "use 'fail' or 'ignore'"),
        ({"poll": 0}, "must be positive"),
        ({"snapshot": False}, "reads nothing without follow=True"),
        ({"columns": ["y"]}, "columns names 'y'; the table has 'x'"),
        ({"columns": []}, "name at least one"),
        ({"filter": [("y", "=", 1)]}, "on columns of the table"),
        ({"filter": [("x", "?", 1)]}, "on columns of the table"),
    ],
)
def test_wrong_settings_are_refused(path: Path, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        sl.sources.Delta(path, **settings)


def test_a_missing_table_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no Delta table; check the path"):
        sl.sources.Delta(tmp_path / "nothing")


def test_later_versions_are_followed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_source, "MAX_VERSIONS", 2)
    source = sl.sources.Delta(path, follow=True)
    assert source.splits(2) == ()
    first, known = source.discover(None)
    assert numbers(source, first) == [0, 1]
    assert source.discover(known) == ([], known)
    for number in (2, 3, 4):
        write(path, number)
    second, known = source.discover(known)
    assert numbers(source, second) == [2, 3]
    third, known = source.discover(known)
    assert numbers(source, third) == [4]
    assert known == {"version": 3}
    later = sl.sources.Delta(path, follow=True, snapshot=False)
    assert later.discover(None) == ([], {"version": 3})
    with pytest.raises(RestoreError, match="not a position of Delta"):
        source.discover(["a"])


def test_texts_may_hold_any_separator_of_lines(tmp_path: Path) -> None:
    table = tmp_path / "texts"
    for text in ("first", "a\u2028b\x85c\x0bd"):
        deltalake.write_deltalake(table, pa.table({"text": [text]}), mode="append")
    splits, known = sl.sources.Delta(table, follow=True).discover({"version": 0})
    assert (len(splits), known) == (1, {"version": 1})


def test_versions_that_only_move_rows_are_skipped(path: Path) -> None:
    source = sl.sources.Delta(path, follow=True)
    write(path, 2)
    write(path, 3)
    deltalake.DeltaTable(path).optimize.compact()
    splits, known = source.discover({"version": 0})
    assert numbers(source, splits) == [2, 3]
    assert known == {"version": 3}


def test_versions_that_change_rows_fail_or_are_ignored(path: Path) -> None:
    deltalake.DeltaTable(path).delete("x = 0")
    write(path, 2)
    with pytest.raises(ConfigurationError, match=r"version 1 of the table deletes or rewrites rows \(DELETE\)"):
        sl.sources.Delta(path, follow=True).discover({"version": 0})
    source = sl.sources.Delta(path, follow=True, on_change="ignore")
    splits, _ = source.discover({"version": 0})
    assert numbers(source, splits) == [2]


def test_columns_may_come_but_not_go(path: Path) -> None:
    source = sl.sources.Delta(path, follow=True)
    wider = pa.table({"x": [2], "y": ["new"]})
    deltalake.write_deltalake(path, wider, mode="append", schema_mode="merge")
    splits, known = source.discover({"version": 0})
    assert read(source, splits) == [{"x": 2}]
    newer = sl.sources.Delta(path)
    rows = read(newer, newer.splits(1))
    assert {"x": 0, "y": None} in rows
    assert {"x": 2, "y": "new"} in rows
    deltalake.write_deltalake(path, pa.table({"x": ["text"]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(ConfigurationError, match=r"has the column 'x' as string, not int64"):
        source.discover(known)


def test_a_log_that_was_cleaned_is_told(path: Path) -> None:
    source = sl.sources.Delta(path, follow=True)
    for number in range(3):
        write(path, number)
    deltalake.DeltaTable(path).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(ConfigurationError, match=r"version 1 of the table is not in its log any more"):
        source.discover({"version": 0})


def test_a_vacuumed_file_is_told(path: Path) -> None:
    source = sl.sources.Delta(path)
    splits = source.splits(1)
    for found in path.glob("*.parquet"):
        found.unlink()
    with pytest.raises(StorageError, match="has lost a file"):
        read(source, splits)


def test_partitions_have_their_types_and_others_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "t"
    days = [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2), None]
    table = pa.table({"x": [1, 2, 3], "day": days, "text": ["a b/ü%", "=", None]})
    deltalake.write_deltalake(path, table, partition_by=["day", "text"])
    source = sl.sources.Delta(path)
    assert sorted(read(source, source.splits(1)), key=lambda row: row["x"]) == table.to_pylist()
    some = sl.sources.Delta(path, columns=["text"], filter=[("day", "<", datetime.date(2026, 1, 2)), ("x", ">", 0)])
    (split,) = some.splits(1)
    assert read(some, [split]) == [{"text": "a b/ü%"}]
    either = sl.sources.Delta(path, filter=[[("text", "=", "=")], [("x", "=", 3)]])
    assert numbers(either, either.splits(1)) == [2, 3]


def test_splits_of_another_source_are_refused(path: Path) -> None:
    with pytest.raises(RestoreError, match="not a split of Delta"):
        sl.sources.Delta(path).reader(ReaderContext("job", "source", 0, 1)).add_split("a", None)

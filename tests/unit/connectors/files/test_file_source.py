"""Files as a source: schemas, splits, and a watched directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.errors import ConfigurationError, RestoreError, StorageError, UserCodeError
from snapline.storage.objects.file_objects import FileObjects

CONTEXT = sl.ReaderContext("job", "files", 0, 1)
X = pa.schema([("x", pa.int64())])


def write(path: Path, text: str = "x\n1\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read_all(source: sl.Source, context: sl.ReaderContext = CONTEXT) -> list[dict[str, Any]]:
    reader = source.reader(context)
    try:
        for split in source.splits(1):
            reader.add_split(split, None)
        rows: list[dict[str, Any]] = []
        while (given := reader.read()) is not None:
            if isinstance(given, pa.RecordBatch):
                rows += given.to_pylist()
        return rows
    finally:
        reader.close()


def test_restored_files_of_several_subtasks_are_read_in_order(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.csv", f"x\n{number}\n")
    source = sl.sources.Files(tmp_path, format="csv")
    reader = source.reader(CONTEXT)
    for split in reversed(source.splits(1)):
        reader.add_split(split, None)
    given = iter(reader.read, None)
    found = [value for batch in given if isinstance(batch, pa.RecordBatch) for value in batch.column("x").to_pylist()]
    assert found == [0, 1, 2]


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in" / "a.csv")
    monkeypatch.chdir(tmp_path)
    source = sl.sources.Files("in", format="csv")
    monkeypatch.chdir("/")
    assert read_all(source) == [{"x": 1}]


def test_other_file_systems_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    objects = FileObjects()
    objects.write("memory://bucket/in/a.parquet", (tmp_path / "a.parquet").read_bytes())
    objects.write("memory://bucket/in/b.csv", b"x\n3\n")
    try:
        assert read_all(sl.sources.Files("memory://bucket/in/*.parquet")) == [{"x": 1}, {"x": 2}]
        assert read_all(sl.sources.Files("memory://bucket/in/b.csv", format="csv")) == [{"x": 3}]
    finally:
        objects.delete_tree("memory://bucket/in")


def test_the_schema_is_that_of_the_first_file_and_others_may_have_more(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "x,y\n1,a\n")
    write(tmp_path / "b.csv", "z,y,x\n0,b,2\n")
    source = sl.sources.Files(tmp_path, format="csv")
    assert source.schema == pa.schema([("x", pa.int64()), ("y", pa.string())])
    assert read_all(source) == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    assert read_all(sl.sources.Files(tmp_path, format="csv", schema=X)) == [{"x": 1}, {"x": 2}]


def test_few_parquet_files_are_read_in_parts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    splits = sl.sources.Files(tmp_path).splits(2)
    assert [split["groups"] for split in splits] == [[0, 1], [1, 2], [2, 3], [3, 5], [5, 6], [6, 7], [7, 8], [8, 10]]
    for number in range(8):
        pq.write_table(pa.table({"x": [number]}), tmp_path / f"b{number}.parquet")
    assert [split["groups"] for split in sl.sources.Files(tmp_path).splits(2)] == [None] * 9


# A watched directory.


def test_new_files_are_discovered_once(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    source = sl.sources.Files(tmp_path, format="csv", watch="1s")
    assert (source.is_bounded, source.in_step, source.discovery_interval_ms) == (False, False, 1000)
    assert source.splits(2) == ()
    splits, known = source.discover(None)
    assert [split["path"] for split in splits] == [str(tmp_path / "a.csv")]
    write(tmp_path / "a.csv", "x\n5\n")
    write(tmp_path / ".b.csv.tmp")
    assert source.discover(known) == ([], known)
    (tmp_path / ".b.csv.tmp").rename(tmp_path / "b.csv")
    splits, known = source.discover(known)
    assert [split["path"] for split in splits] == [str(tmp_path / "b.csv")]
    (tmp_path / "a.csv").unlink()
    assert source.discover(known) == ([], ["b.csv"])


def test_a_watched_directory_that_is_gone_or_too_full_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "in"
    write(directory / "a.csv")
    write(directory / "b.csv")
    source = sl.sources.Files(directory, format="csv", watch="1s")
    monkeypatch.setattr("snapline.connectors.files.file_source.MAX_WATCHED_FILES", 1)
    with pytest.raises(StorageError, match=r"there are 2 files in .* at most 1 can be watched"):
        source.discover(None)
    directory.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is gone; restore it"):
        source.discover(["a.csv"])


# What is wrong.


def test_wrong_settings_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    for arguments, complaint in (
        ({"path": tmp_path, "format": "avro"}, "use one of 'parquet', 'csv', 'jsonl', 'orc', 'text'"),
        ({"path": tmp_path, "format": "orc"}, "cannot be read as orc"),
        ({"path": tmp_path, "format": "csv", "header": False}, "with schema="),
        ({"path": tmp_path, "format": "text", "schema": "n BIGINT"}, "one column of text"),
        ({"path": tmp_path / "nowhere"}, "no such file or directory"),
        ({"path": tmp_path / "nowhere" / "*.csv"}, "no such file or directory"),
        ({"path": tmp_path / "*.orc"}, "there are no files to infer the columns from"),
        ({"path": tmp_path, "format": "csv", "watch": 0}, "watch=0"),
        ({"path": tmp_path / "a.csv", "format": "csv", "watch": "1s"}, "this is one file; watch its directory"),
        ({"path": tmp_path / "a.csv"}, "cannot infer the schema of the first file.*cannot be read as parquet"),
    ):
        with pytest.raises(ConfigurationError, match=complaint):
            sl.sources.Files(**arguments)
    write(tmp_path / "b.csv", "x,y\n1,\n")
    with pytest.raises(ConfigurationError, match="cannot infer the type of the column 'y'"):
        sl.sources.Files(tmp_path / "b.csv", format="csv")
    write(tmp_path / "empty.csv", "")
    with pytest.raises(ConfigurationError, match="cannot infer the schema of the first file"):
        sl.sources.Files(tmp_path / "empty.csv", format="csv")


def test_a_split_of_something_else_is_refused(tmp_path: Path) -> None:
    for split in (["x", 1], {"first": 0}):
        with pytest.raises(RestoreError, match="not a split of Files"):
            sl.sources.Files(tmp_path, schema=X).reader(CONTEXT).add_split(split, None)


def test_files_without_names_have_the_columns_of_the_schema(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", '1,x\n2,"y,z"\nno number,q\n')
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    source = sl.sources.Files(tmp_path, format="csv", schema=schema, header=False)
    bad: list[Any] = []
    context = sl.ReaderContext("job", "files", 0, 1, bad.append)
    assert read_all(source, context) == [{"n": 1, "s": "x"}, {"n": 2, "s": "y,z"}]
    assert [each.line for each in bad] == [3]


def test_columns_in_the_names_of_directories(tmp_path: Path) -> None:
    write(tmp_path / "k=7" / "s=a%2Fb" / "a.csv")
    write(tmp_path / "k=8" / "s=__HIVE_DEFAULT_PARTITION__" / "b.csv", "x\n2\n")
    schema = pa.schema([("s", pa.string()), ("x", pa.int64()), ("k", pa.int32())])
    source = sl.sources.Files(f"{tmp_path}/k=*", format="csv", schema=schema, partitions=True)
    assert read_all(source) == [{"s": "a/b", "x": 1, "k": 7}, {"s": None, "x": 2, "k": 8}]
    assert read_all(sl.sources.Files(f"{tmp_path}/k=*", format="csv", schema=schema)) == [], "directories do not match"


def test_of_directories_only_those_that_name_columns_count(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "k=7" / "b.csv", "x\n2\n")
    write(tmp_path / "other" / "c.csv", "x\n3\n")
    schema = pa.schema([("x", pa.int64())])

    def numbers(path: str, *, partitions: bool = True) -> list[int]:
        source = sl.sources.Files(path, format="csv", schema=schema, partitions=partitions)
        return sorted(row["x"] for row in read_all(source))

    assert numbers(str(tmp_path)) == [1, 2]
    assert numbers(f"{tmp_path}/*") == [1, 2, 3]
    assert numbers(str(tmp_path), partitions=False) == [1, 2, 3]


@pytest.mark.parametrize("name", ["x", "z"])
def test_columns_that_a_parquet_file_names_otherwise_or_has_not(tmp_path: Path, name: str) -> None:
    pq.write_table(pa.table({"X": [1, 2]}), tmp_path / "a.parquet")
    schema = pa.schema([("y", pa.string()), (name, pa.int64())])
    found = read_all(sl.sources.Files(tmp_path, schema=schema, partitions=True))
    assert found == [{"y": None, name: value if name == "x" else None} for value in (1, 2)]
    with pytest.raises(UserCodeError, match="has no column 'y'"):
        read_all(sl.sources.Files(tmp_path, schema=schema))

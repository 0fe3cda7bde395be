"""The files of a DataFrame: read by row group from any position, and deleted when no longer needed."""

from __future__ import annotations

import datetime
import pickle
import threading
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import snapline as sl
from snapline.api.job_handle import JobFailedError
from snapline.contracts.schemas import checked_schema
from snapline.errors import ConfigurationError, StorageError
from snapline.spark.dataframes import DataFrameSource, Materialised, RowGroupReader, from_dataframe
from snapline.types import JobStatus


def written(path: Path, table: pa.Table, **options: Any) -> list[dict[str, Any]]:
    """A file of several row groups, and its splits."""
    pq.write_table(table, path, row_group_size=3, **options)
    return [{"file": str(path), "group": group} for group in range(pq.ParquetFile(path).num_row_groups)]


def values(reader: RowGroupReader) -> list[Any]:
    made: list[Any] = []
    while (batch := reader.read()) is not None:
        made += batch.column(0).to_pylist()
    return made


def test_row_groups_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapline.spark.dataframes.BATCH_ROWS", 2)
    table = pa.table({"n": pa.array(range(8), pa.int64())})
    splits = written(tmp_path / "a.parquet", table)
    assert len(splits) == 3
    for stop in range(6):
        reader = RowGroupReader(table.schema)
        for split in splits:
            reader.add_split(split, None)
        read = [value for _ in range(stop) if (batch := reader.read()) for value in batch.column(0).to_pylist()]
        positions = reader.positions(1)
        reader.close()
        again = RowGroupReader(table.schema)
        for split, position in positions:
            again.add_split(split, position)
        assert read + values(again) == list(range(8)), stop
        assert again.positions(1) == []
        again.close()


def test_files_have_the_types_of_the_dataframe_again(tmp_path: Path) -> None:
    schema = checked_schema(
        "n INT, at TIMESTAMP, wall TIMESTAMP_NTZ, price DECIMAL(10,2), tags ARRAY<STRING>, "
        "inner STRUCT<a: INT, b: ARRAY<DOUBLE>>, by_name MAP<STRING, BIGINT>, day DATE, raw BINARY",
        "the DataFrame",
    )
    at = datetime.datetime(3000, 1, 2, 3, 4, 5, 678901)
    row = {
        "n": 1,
        "at": at,
        "wall": at,
        "price": Decimal("1.50"),
        "tags": ["x", None],
        "inner": {"a": 1, "b": [0.5]},
        "by_name": [("k", 1)],
        "day": at.date(),
        "raw": b"\0",
    }
    naive = pa.schema([pa.field("at", pa.timestamp("us")) if field.name == "at" else field for field in schema])
    table = pa.Table.from_pylist([row, dict.fromkeys(row)], schema=naive)
    for options in ({}, {"use_deprecated_int96_timestamps": True}):
        (split,) = written(tmp_path / "a.parquet", table, **options)
        reader = RowGroupReader(schema)
        reader.add_split(split, None)
        batch = reader.read()
        reader.close()
        assert batch is not None
        assert batch.schema == schema
        assert batch.to_pylist() == [{**row, "at": at.replace(tzinfo=datetime.UTC)}, dict.fromkeys(row)]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    reader = RowGroupReader(pa.schema([("n", pa.int64())]))
    reader.add_split({"file": str(tmp_path / "gone.parquet"), "group": 0}, None)
    with pytest.raises(StorageError, match="with rows of a DataFrame, is missing"):
        reader.read()


def test_only_dataframes_are_dataframes() -> None:
    with pytest.raises(ConfigurationError, match="give a DataFrame of Spark"):
        from_dataframe(sl.Job("x"), pa.table({"n": [1]}), "x", watermarks=None, parallelism=None, directory=None)


# Files of jobs.


class DataFrame:
    """A stand-in for one of Spark, with other rows each time it is computed."""

    __module__ = "pyspark.sql.classic.dataframe"
    isStreaming = False  # noqa: N815  # PySpark's name
    schema = "n BIGINT"

    def __init__(self) -> None:
        self.computed = 0
        self.is_elsewhere = False

    @property
    def write(self) -> DataFrame:
        return self

    def parquet(self, url: str) -> None:
        self.computed += 1
        if not self.is_elsewhere:
            directory = Path(url.removeprefix("file://"))
            directory.mkdir()
            pq.write_table(pa.table({"n": [self.computed]}), directory / "part-0.parquet")


class Handle:
    """A job that has ended."""

    id = "job"

    def __init__(self, status: JobStatus, savepoint: str | None = None) -> None:
        self._status = status
        self._savepoint = savepoint

    def wait(self) -> JobStatus:
        if self._status is JobStatus.FAILED:
            raise JobFailedError("it has failed")
        return self._status

    def status(self) -> JobStatus:
        return self._status

    def checkpoints(self) -> Any:
        return SimpleNamespace(latest=SimpleNamespace(savepoint=self._savepoint))


def spec(source: DataFrameSource, checkpoints: sl.Checkpoints) -> Any:
    return SimpleNamespace(job_id="job", sources={"frame": source, "other": object()}, checkpoints=checkpoints)


def ended(frames: Materialised, handle: Any) -> None:
    frames.delete_after(handle)
    for thread in threading.enumerate():
        if thread.name == "dataframes-job":
            thread.join(60)


def test_a_dataframe_is_computed_once_for_a_job(tmp_path: Path) -> None:
    frame, checkpoints = DataFrame(), sl.Checkpoints(storage=tmp_path / "storage")
    source = DataFrameSource(frame, None)
    with pytest.raises(ConfigurationError, match="runs on Spark only"):
        source.splits(1)
    Materialised(spec(source, checkpoints))
    (split,) = source.splits(1)
    assert split == {"file": str(tmp_path / "storage/.dataframes/job/frame/part-0.parquet"), "group": 0}
    again = DataFrameSource(frame, None)
    Materialised(spec(again, checkpoints))
    assert again.splits(4) == [split]
    assert frame.computed == 1
    reader = pickle.loads(pickle.dumps(again)).reader(None)
    reader.add_split(split, None)
    assert values(reader) == [1]


def test_the_rows_of_a_dataframe_are_for_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = tmp_path / "storage"
    Materialised(spec(DataFrameSource(DataFrame(), None), sl.Checkpoints(storage=storage)))
    assert (storage / ".dataframes" / "job").stat().st_mode & 0o777 == 0o700
    # Without storage each run has a directory of its own, which nobody can have prepared for it.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sources = [DataFrameSource(DataFrame(), None) for _ in range(2)]
    for source in sources:
        Materialised(spec(source, sl.Checkpoints()))
    roots = {Path(source.splits(1)[0]["file"]).parents[2] for source in sources}
    assert len(roots) == 2
    for root in roots:
        assert root.parent == tmp_path
        assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("is_link", [True, False])
def test_a_directory_that_somebody_else_has_prepared_is_refused(
    tmp_path: Path, is_link: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "storage" / ".dataframes" / "job"
    directory.parent.mkdir(parents=True)
    if is_link:
        (tmp_path / "theirs").mkdir()
        directory.symlink_to(tmp_path / "theirs")
    else:
        directory.mkdir()
        monkeypatch.setattr("os.geteuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="is a link or belongs to another user"):
        Materialised(spec(DataFrameSource(DataFrame(), None), sl.Checkpoints(storage=tmp_path / "storage")))


@pytest.mark.parametrize(
    ("status", "savepoint", "settings", "stays"),
    [
        (JobStatus.FINISHED, None, {}, False),
        (JobStatus.FAILED, None, {}, True),
        (JobStatus.CANCELED, None, {}, True),
        (JobStatus.FAILED, None, {"externalized": "NO_EXTERNALIZED"}, False),
        (JobStatus.FAILED, None, {"externalized": "DELETE_ON_CANCELLATION"}, True),
        (JobStatus.CANCELED, None, {"externalized": "DELETE_ON_CANCELLATION"}, False),
        (JobStatus.FAILED, None, {"storage": None}, False),
        (JobStatus.SUSPENDED, None, {}, True),
        (JobStatus.SUSPENDED, None, {"storage": None}, False),
        (JobStatus.FINISHED, "there", {}, True),
        (JobStatus.CANCELED, None, {"externalized": "RETAIN_ON_CANCELLATION"}, True),
        (JobStatus.FINISHED, None, {"externalized": "RETAIN_ON_CANCELLATION"}, False),
    ],
)
def test_files_stay_while_the_job_can_resume(
    tmp_path: Path, status: JobStatus, savepoint: str | None, settings: dict[str, Any], stays: bool
) -> None:
    checkpoints = sl.Checkpoints(**{"storage": tmp_path / "storage", **settings})
    frames = Materialised(spec(DataFrameSource(DataFrame(), tmp_path / "frames"), checkpoints))
    assert (tmp_path / "frames/job/frame").is_dir()
    ended(frames, Handle(status, savepoint))
    assert (tmp_path / "frames").exists() == stays


def test_a_job_that_cannot_be_started_leaves_only_what_was_there(tmp_path: Path) -> None:
    checkpoints = sl.Checkpoints(storage=tmp_path / "storage")
    Materialised(spec(DataFrameSource(DataFrame(), tmp_path / "frames"), checkpoints)).delete_new()
    assert not (tmp_path / "frames").exists()
    Materialised(spec(DataFrameSource(DataFrame(), tmp_path / "frames"), checkpoints))
    Materialised(spec(DataFrameSource(DataFrame(), tmp_path / "frames"), checkpoints)).delete_new()
    assert (tmp_path / "frames/job/frame").is_dir()


def test_a_directory_the_driver_does_not_share_is_refused(tmp_path: Path) -> None:
    frame = DataFrame()
    frame.is_elsewhere = True
    source = DataFrameSource(frame, tmp_path / "frames")
    with pytest.raises(ConfigurationError, match="that the driver and all executors share"):
        Materialised(spec(source, sl.Checkpoints()))
    remote = sl.Checkpoints(storage="s3://bucket/checkpoints")
    with pytest.raises(ConfigurationError, match="give one with directory="):
        Materialised(spec(DataFrameSource(frame, None), remote))
    with pytest.raises(ConfigurationError, match="only directories of the local file system"):
        DataFrameSource(frame, "s3://bucket/frames")

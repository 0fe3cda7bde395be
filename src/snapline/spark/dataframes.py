"""DataFrames as sources and results of jobs.

A DataFrame that a job reads is first written to Parquet files, once: Spark may compute different rows, or another
order, each time it evaluates it. The files are in `<directory>/<job id>/<uid>`, where another driver that resumes the
job finds them. They are deleted when the job has ended, unless a savepoint or checkpoint that refers to them is kept.
"""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import shutil
import stat
import tempfile
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.api.job import Job
from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.api.stream import Stream
from snapline.config import Path as AnyPath
from snapline.connectors.files.file_sink import Files
from snapline.contracts.schemas import checked_schema
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Watermarks
from snapline.errors import ConfigurationError, StorageError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.retention.retention_rules import keeps
from snapline.spark.dataframe_types import readable_schema
from snapline.spark.spark_provider import check_session
from snapline.spark.spark_settings import configured

BATCH_ROWS = 10_000

_SUBDIRECTORY = ".dataframes"
"""Directory of the files in checkpoint storage; not a valid job id."""

_log = logging.getLogger(__name__)


class DataFrameSource(Source):
    """Reads the rows of a DataFrame from files, which `materialise` writes before the job starts.

    Only the driver holds the DataFrame: it is not pickled with the job.
    """

    is_bounded = True

    def __init__(self, frame: Any, directory: AnyPath | None) -> None:
        if not _is_dataframe(frame):
            raise ConfigurationError(f"from_dataframe({frame!r}): give a DataFrame of Spark")
        if type(frame).__module__.startswith("pyspark.sql.connect"):
            raise ConfigurationError("from_dataframe(): this is a DataFrame of Spark Connect; use a classic session")
        self._schema = checked_schema(frame.schema, "the DataFrame")
        self._frame: Any = frame
        self._directory = None if directory is None else _local(directory, "from_dataframe")
        self._files: Path | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_frame": None}

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def directory(self, job_id: str, uid: str, storage: str | None) -> Path:
        """Returns the directory of the files of a job; without one of the user's, nobody else can look into it."""
        if self._directory is not None:
            return self._directory / job_id / uid
        if storage is None:
            # No other run can continue this one.
            return Path(tempfile.mkdtemp(prefix="snapline-dataframes-")) / job_id / uid
        return _private(_default_directory(storage) / job_id) / uid

    def materialise(self, directory: Path) -> None:
        """Write the DataFrame to this directory, unless it exists."""
        self._files = directory
        if directory.is_dir():
            return
        # Written under another name first: a directory with the final name is complete.
        unfinished = directory.with_name(f".{directory.name}-{secrets.token_hex(8)}")
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            self._frame.write.parquet(f"file://{unfinished}")
            self._publish(unfinished)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def _publish(self, unfinished: Path) -> None:
        assert self._files is not None
        if not unfinished.is_dir() or not _parts(unfinished):
            raise ConfigurationError(
                f"from_dataframe(): Spark wrote the DataFrame to {unfinished}, but the driver sees nothing there: "
                "give a directory= that the driver and all executors share"
            )
        try:
            os.rename(unfinished, self._files)
        except OSError as error:
            if not self._files.is_dir():
                raise StorageError(f"cannot rename {unfinished} to {self._files}: {error}") from error

    def splits(self, parallelism: int) -> Sequence[Split]:
        """Returns one split per row group of each file."""
        if self._files is None:
            raise ConfigurationError("a job that reads a DataFrame runs on Spark only: start it with a SparkSession")
        splits: list[Split] = []
        for path in _parts(self._files):
            with pq.ParquetFile(path) as file:
                groups = [group for group in range(file.num_row_groups) if file.metadata.row_group(group).num_rows]
            splits += [{"file": str(path), "group": group} for group in groups]
        return splits

    def reader(self, context: ReaderContext) -> SourceReader:
        return RowGroupReader(self._schema)


class RowGroupReader(SourceReader):
    """Reads row groups of Parquet files; the position is the number of rows read of the group."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._waiting: deque[tuple[Split, int]] = deque()
        self._file: pq.ParquetFile | None = None
        self._batches: Any = None
        self._skip = 0

    def add_split(self, split: Split, position: Position) -> None:
        self._waiting.append((split, position or 0))

    def read(self) -> pa.RecordBatch | None:
        while self._waiting:
            split, done = self._waiting[0]
            if self._file is None:
                self._open(split, done)
            batch = next(self._batches, None)
            if batch is None:
                self._waiting.popleft()
                self.close()
            elif self._skip >= batch.num_rows:
                self._skip -= batch.num_rows
            else:
                batch, self._skip = batch.slice(self._skip), 0
                self._waiting[0] = (split, done + batch.num_rows)
                return self._conforming(batch)
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return list(self._waiting)

    def close(self) -> None:
        file, self._file = self._file, None
        self._batches = None
        if file is not None:
            file.close()

    def _open(self, split: Mapping[str, Any], done: int) -> None:
        try:
            # Spark writes 96-bit timestamps by default; as nanoseconds they would overflow in the year 2262.
            self._file = pq.ParquetFile(split["file"], coerce_int96_timestamp_unit="us")
        except FileNotFoundError as error:
            raise StorageError(
                f"{split['file']}, with rows of a DataFrame, is missing: it must stay until the job has ended, on a "
                "file system that all executors share"
            ) from error
        self._batches = self._file.iter_batches(BATCH_ROWS, row_groups=[split["group"]], columns=self._schema.names)
        self._skip = done

    def _conforming(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Cast the columns from their Parquet types to those of the DataFrame."""
        columns = []
        for field in self._schema:
            column = batch.column(field.name)
            if column.type != field.type and pa.types.is_timestamp(field.type) and column.type.tz is None:
                # Parquet timestamps are UTC without saying so.
                column = column.cast(pa.timestamp(field.type.unit))
            columns.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def from_dataframe(
    job: Job, frame: Any, uid: str, *, watermarks: Watermarks | None, parallelism: int | None, directory: AnyPath | None
) -> Stream:
    """See `Job.from_dataframe`."""
    return job.source(DataFrameSource(frame, directory), uid, watermarks=watermarks, parallelism=parallelism)


class Materialised:
    """The files of all DataFrames a job reads."""

    def __init__(self, spec: JobSpec) -> None:
        """Write the missing files; blocks until Spark has computed them."""
        self._policy = spec.checkpoints.externalized
        self._has_storage = spec.checkpoints.storage is not None
        self._is_new: dict[Path, bool] = {}
        try:
            for uid, source in spec.sources.items():
                if isinstance(source, DataFrameSource):
                    directory = source.directory(spec.job_id, uid, spec.checkpoints.storage)
                    self._is_new[directory] = not directory.is_dir()
                    source.materialise(directory)
        except BaseException:
            self.delete_new()
            raise

    def delete_new(self) -> None:
        """Delete the files written by this object, after the job failed to start."""
        for directory, is_new in self._is_new.items():
            if is_new:
                _delete(directory)

    def delete_after(self, handle: JobHandle) -> None:
        """Delete the files once the job has ended and no checkpoint or savepoint needs them."""
        if self._is_new:
            # Not a daemon: at exit the program suspends the job, then waits for this thread.
            threading.Thread(target=self._wait, args=(handle,), name=f"dataframes-{handle.id}").start()

    def _wait(self, handle: JobHandle) -> None:
        try:
            handle.wait()
        except JobFailedError as error:
            _log.debug("deleting the files of DataFrames: %s", error)
        status = handle.status()
        may_resume = keeps(self._policy, status) if status.is_globally_terminal else self._has_storage
        if may_resume or handle.checkpoints().latest.savepoint is not None:
            _log.info("keeping the files of DataFrames in %s: the job may resume", ", ".join(map(str, self._is_new)))
            return
        for directory in self._is_new:
            _delete(directory)


def to_dataframe(stream: Stream, spark: SparkSession, *, uid: str, directory: AnyPath | None) -> Any:
    """See `Stream.to_dataframe`."""
    job = stream._job
    if not any(kind.__name__ == "SparkSession" for kind in type(spark).__mro__):
        raise ConfigurationError(f"to_dataframe({spark!r}): give a SparkSession")
    check_session(spark)
    schema = readable_schema(stream.schema)
    settings = {**dict(spark.sparkContext.getConf().getAll()), **spark.conf.getAll}
    running = configured(job, settings)
    if directory is not None:
        files = _local(directory, "to_dataframe")
    elif running.checkpoints.storage is None:
        files = Path(tempfile.mkdtemp(prefix="snapline-rows-"))
        atexit.register(shutil.rmtree, files, ignore_errors=True)
    else:
        # By job id: a driver that resumes the job must find what its predecessor committed.
        job_directory = _default_directory(running.checkpoints.storage) / running.id_for_start()
        files = _private(job_directory) / f"rows-{uid}"

    def write() -> None:
        files.mkdir(parents=True, exist_ok=True)
        fits = schema == stream.schema
        rows = stream if fits else stream.map_batches(lambda batch: _cast(batch, schema), schema=schema)
        rows.sink(Files(files), uid=uid)

    job._run_with(write, spark, "to_dataframe()")
    return spark.read.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True)).parquet(f"file://{files}")


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _delete(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for parent in (directory.parent, directory.parent.parent):
        try:
            parent.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return  # not empty


def _parts(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*.parquet") if not path.name.startswith((".", "_")))


def _is_dataframe(frame: Any) -> bool:
    return any(kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.") for kind in type(frame).__mro__)


def _private(directory: Path) -> Path:
    """Make a directory that only this user can enter. Raises `ConfigurationError` if it is another's."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{directory}, for the rows of DataFrames, is a link or belongs to another user; remove it, or give a "
            "directory= of your own"
        )
    if found.st_mode & 0o077:
        directory.chmod(0o700)
    return directory


def _default_directory(storage: str) -> Path:
    """Beside the checkpoints."""
    path = storage.removeprefix("file://")
    if "://" in path:
        raise ConfigurationError(
            f"a DataFrame needs a directory that all executors share, and {storage} is not on a file system; give one "
            "with directory="
        )
    return Path(os.path.abspath(path)) / _SUBDIRECTORY


def staged_rows_directory(storage: str | None) -> str | None:
    """A directory for rows on their way to the driver: beside the checkpoints, or temporary where these have no place.

    None if checkpoints are in an object store.
    """
    if storage is None:
        # No other run can continue this one.
        temporary = tempfile.mkdtemp(prefix="snapline-staged-")
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return temporary
    if "://" in storage.removeprefix("file://"):
        return None
    return str(_private(_default_directory(storage) / ".staged"))


def _local(directory: AnyPath, what: str) -> Path:
    path = os.fspath(directory).removeprefix("file://")
    if "://" in path:
        raise ConfigurationError(f"{what}(directory={path!r}): only directories of the local file system can be used")
    return Path(os.path.abspath(path))

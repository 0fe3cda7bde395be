"""A sink that calls a function on the driver with a Spark DataFrame of the rows of a checkpoint."""

from __future__ import annotations

import glob
import logging
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.config import Path as AnyPath
from snapline.connectors.files.file_sink import PENDING, FilesWriter
from snapline.contracts.schemas import conform
from snapline.contracts.sink import (
    CommitResult,
    CommitScope,
    Committable,
    GlobalCommitter,
    Permit,
    Sink,
    SinkContext,
    SinkWriter,
)
from snapline.errors import ConfigurationError, RestoreError, StorageError, UserCodeError, is_of_environment
from snapline.text import error_text

FrameFunction: TypeAlias = Callable[[Any, int], Any]

FrameReader: TypeAlias = Callable[[Sequence[str], pa.Schema], Any]
"""Makes a DataFrame that reads Parquet files of this schema."""

_COMMITTED = ".committed"
_MAX_FILE_BYTES = 1 << 30
_STAGED = re.compile(r"\d+-\d+-\d+-[0-9a-f]+\.parquet")

_log = logging.getLogger(__name__)


class ForeachDataFrame(Sink):
    """Calls `function(dataframe, batch_id)` on the driver with a Spark DataFrame of all rows of a checkpoint.

    It is what `foreachBatch` is in Structured Streaming, for jobs that run on Spark. There is one call at a time, in
    the order of checkpoints, each once its checkpoint is complete; none for checkpoints without rows. Batch ids count
    from 0, and none is used twice for a job and its checkpoint directory. If the driver dies before it has noted that
    the function returned, the next one calls it again with the same id and the same rows: a function that leaves out
    ids it has seen takes effect exactly once.

    The function is not sent to executors, so it may use the SparkSession and anything else of the driver. Its queries
    need task slots beside those of the job. The DataFrame reads Parquet files which are deleted when the function has
    returned: use it in the function only.

    directory: where these files are, shared by the driver and all executors; by default beside the checkpoints.
    """

    commit_scope = CommitScope.DRIVER

    def __init__(self, function: FrameFunction, directory: AnyPath | None = None) -> None:
        if not callable(function):
            raise ConfigurationError(f"ForeachDataFrame({function!r}): give a function of a DataFrame and a batch id")
        given = None if directory is None else os.fspath(directory).removeprefix("file://")
        if given is not None and "://" in given:
            raise ConfigurationError(
                f"ForeachDataFrame(directory={given!r}): only directories of the local file system can be used"
            )
        self._function: FrameFunction | None = function
        self._directory = None if given is None else os.path.abspath(given)
        self._default_directory: str | None = None
        self._frames: FrameReader | None = None
        self._written: pa.Schema | None = None
        self.calls_without_rows = False
        """Whether writers stage a file for every checkpoint, so that the function may be called without rows."""
        self.is_call_due = False
        """On the driver, with `calls_without_rows`: whether it is called for the next checkpoint, rows or not."""
        self.schema: pa.Schema | None = None
        """Of the rows; known once the sink is part of a job."""

    def __getstate__(self) -> dict[str, Any]:
        # They stay on the driver.
        return {**self.__dict__, "_function": None, "_frames": None}

    def use_session(self, frames: FrameReader, schema: pa.Schema, directory: str | None) -> None:
        """The job starts on Spark: how files become DataFrames, the types to write, and where to if not said."""
        self._frames, self._written, self._default_directory = frames, schema, directory

    def check(self, schema: pa.Schema) -> None:
        self.schema = schema

    def check_access(self) -> None:
        if self._written is None:
            raise ConfigurationError("ForeachDataFrame needs a SparkSession: start the job with one")
        place = self._place
        try:
            place.mkdir(parents=True, exist_ok=True)
            probe = place / f".probe-{secrets.token_hex(8)}"
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise ConfigurationError(
                f"ForeachDataFrame: {error}; give a directory= that the driver and all executors share and may write to"
            ) from error

    def committed_until(self, lineage: str, uid: str) -> int | None:
        return _Noted(self._place, uid).until(lineage)

    def writer(self, context: SinkContext) -> SinkWriter:
        assert self._written is not None
        return _StagedWriter(self._place, context, self._written, is_always=self.calls_without_rows)

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        assert self._function is not None, "the driver keeps the function"
        assert self._frames is not None, "check_access() comes first"
        assert self._written is not None
        return _Committer(self._place, context, self, self._function, self._frames, self._written)

    @property
    def _place(self) -> Path:
        directory = self._directory or self._default_directory
        if directory is None:
            raise ConfigurationError(
                "ForeachDataFrame needs a directory that the driver and all executors share; give one with directory=, "
                "or keep checkpoints on a file system"
            )
        return Path(directory)


class _StagedWriter(FilesWriter):
    """Stages files as the file sink does, and never shows them. With `is_always` there is one for each checkpoint."""

    def __init__(self, directory: Path, context: SinkContext, schema: pa.Schema, *, is_always: bool) -> None:
        super().__init__(directory, "parquet", context, _MAX_FILE_BYTES)
        self._schema = schema
        self._is_always = is_always and context.subtask == 0

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(conform(batch, self._schema, "the input of ForeachDataFrame"))

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        if self._is_always and not self._open and not self._full:
            super().write(pa.RecordBatch.from_pylist([], schema=self._schema))
        return [payload["pending"] for payload in super().prepare(checkpoint_id)]


class _Committer(GlobalCommitter):
    def __init__(
        self,
        directory: Path,
        context: SinkContext,
        sink: ForeachDataFrame,
        function: FrameFunction,
        frames: FrameReader,
        schema: pa.Schema,
    ) -> None:
        self._root = directory / PENDING
        self._noted = _Noted(directory, context.uid)
        self._job_id = context.job_id
        self._sink = sink
        self._what = f"the function of the sink {context.uid!r}"
        self._function = function
        self._frames = frames
        self._schema = schema

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        paths = [self._checked(path, committable.name) for path in committable.payload]
        # The lineage that prepared it, perhaps that of the job whose savepoint was restored.
        lineage = committable.name.rsplit("/", 5)[0]
        newest = self._noted.until(lineage)
        if newest is not None and committable.checkpoint_id <= newest:
            _delete(paths)
            return CommitResult.ALREADY_COMMITTED
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise StorageError(
                f"{committable.name} cannot be committed: {missing[0]} is gone. Delete nothing in {self._root}; its "
                "rows are lost, so restore an older snapshot that does not need it"
            )
        is_due, self._sink.is_call_due = self._sink.is_call_due, False
        batch_id = self._noted.next_batch(lineage, self._job_id)
        if self._sink.calls_without_rows and not is_due and not _has_rows(paths):
            self._noted.note(lineage, committable.checkpoint_id, batch_id - 1)
            _delete(paths)
            return CommitResult.COMMITTED
        try:
            self._function(self._frames(list(map(str, paths)), self._schema), batch_id)
        except Exception as error:
            self._sink.is_call_due = is_due
            if is_of_environment(error):
                _log.warning("%s is called again for batch %d: %s", self._what, batch_id, error_text(error))
                return CommitResult.RETRY_LATER
            raise UserCodeError(f"{self._what} raised {error_text(error)}, for batch {batch_id}") from error
        self._noted.note(lineage, committable.checkpoint_id, batch_id)
        _delete(paths)
        return CommitResult.COMMITTED

    def _checked(self, path: Any, name: str) -> Path:
        """Paths come from a snapshot, which others may have written: no other file may be read, nor deleted."""
        if not isinstance(path, str):
            raise UserCodeError(f"{name} was prepared by another kind of sink; give this one another uid")
        found = Path(path)
        inside = os.path.realpath(found.parent).startswith(f"{os.path.realpath(self._root)}{os.sep}")
        if not inside or found.is_symlink() or not _STAGED.fullmatch(found.name):
            raise RestoreError(
                f"{name} names {found}, which is no file of this sink in {self._root}; if the job used another "
                "directory before, give that one with ForeachDataFrame(directory=...)"
            )
        return found


class _Noted:
    """For each lineage the newest checkpoint for which the function has returned, with its batch id: a file each."""

    def __init__(self, directory: Path, uid: str) -> None:
        self._directory = directory / _COMMITTED / uid

    def until(self, lineage: str) -> int | None:
        """The newest checkpoint that is done."""
        found = _numbers(self._file(lineage))
        return None if found is None else found[0]

    def next_batch(self, lineage: str, job_id: str) -> int:
        """The next batch id: behind all that this job has used, also before it was restored."""
        names = [self._file(lineage), *self._directory.glob(f"{glob.escape(job_id)}.*")]
        return 1 + max((found[1] for path in names if (found := _numbers(path)) is not None), default=-1)

    def note(self, lineage: str, checkpoint_id: int, batch_id: int) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        unfinished = self._directory / f".{secrets.token_hex(8)}"
        with open(unfinished, "w") as file:
            file.write(f"{checkpoint_id} {batch_id}")
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, self._file(lineage))

    def _file(self, lineage: str) -> Path:
        return self._directory / (lineage.replace("/", "_") or "-")


def _numbers(path: Path) -> tuple[int, int] | None:
    """A checkpoint and a batch; notes of versions without batch ids have the checkpoint only, which was the id."""
    try:
        checkpoint_id, _, batch_id = path.read_text().partition(" ")
    except FileNotFoundError:
        return None
    return int(checkpoint_id), int(batch_id or checkpoint_id)


def _has_rows(paths: Sequence[Path]) -> bool:
    import pyarrow.parquet as parquet

    return any(parquet.read_metadata(path).num_rows for path in paths)


def _delete(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)

"""Results that come back to the program that has started the job."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from snapline.api.job_handle import JobFailedError
from snapline.config import Path as AnyPath
from snapline.connectors.files.file_sink import Files, FilesWriter, read_files
from snapline.connectors.generate import whole_number
from snapline.contracts.sink import Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, StorageError, UserCodeError
from snapline.types import JobStatus

if TYPE_CHECKING:
    from snapline.api.stream import Stream

_FORMAT = "arrow"
_STARTED = ".started"
"""The file that has the id of the job that was started last; the rows of each job are in a directory of its own."""

_MAX_FILE_BYTES = 256 << 20
_MAX_ROWS = 1_000_000_000


class Collect(Sink):
    """Rows for the program that starts the job: `table()` gives all that have been committed so far, exactly once.

    They are those of the job that was started last: a second run does not add to the rows of the first, but a job that
    goes on from its last checkpoint adds to its own. What was written before a savepoint belongs to the job that took
    it.

    They travel through files of a directory that this program and all executors share. Without `directory` it is a
    temporary one of this machine, which is deleted with this object: for jobs that run here, and no longer than this
    program. Give one if the job runs on a cluster, or goes on after this program has ended.

    max_rows: a job that gives more fails, since all have to fit into memory here.
    """

    def __init__(self, directory: AnyPath | None = None, *, max_rows: int = 1_000_000) -> None:
        self._max_rows = whole_number("max_rows", max_rows, 1, _MAX_ROWS)
        self._schema: pa.Schema | None = None
        if directory is None:
            self._directory = tempfile.mkdtemp(prefix="snapline-collect-")
            weakref.finalize(self, _remove, self._directory, os.getpid())
        else:
            if "://" in os.fspath(directory):
                raise ConfigurationError(f"Collect({os.fspath(directory)!r}): use a directory of a local file system")
            self._directory = os.path.abspath(directory)
            os.makedirs(self._directory, exist_ok=True)
        # Found by writers only if they see the same directory, not one of the same name elsewhere.
        self._mark = f".collect-{secrets.token_hex(8)}"
        Path(self._directory, self._mark).touch()

    def check(self, schema: pa.Schema) -> None:
        if self._schema is not None:
            raise ConfigurationError("a Collect takes the rows of one stream; make another one for the other stream")
        Files(self._directory, format=_FORMAT).check(schema)
        self._schema = schema

    def starting(self, job_id: str) -> None:
        """Rows of this job are meant from now on, in every program that has this directory."""
        started = Path(self._directory, _STARTED)
        made = started.with_name(f"{_STARTED}-{secrets.token_hex(8)}")
        made.write_text(job_id, encoding="utf-8")
        os.replace(made, started)

    def writer(self, context: SinkContext) -> SinkWriter:
        if not Path(self._directory, self._mark).exists():
            raise StorageError(
                f"Collect: {self._directory!r} is not the directory of the program that has started the job, or that "
                "is gone; give a directory that all executors share with it: Collect(directory)"
            )
        return _CollectWriter(Path(self._directory, context.job_id), context, self._max_rows)

    def table(self) -> pa.Table:
        """All rows of complete checkpoints, in no particular order but that of each subtask."""
        if self._schema is None:
            raise ConfigurationError("this Collect is no sink of any job yet; use stream.sink(collect, uid)")
        found = self._found()
        if found.num_rows > self._max_rows:
            raise _too_many(self._max_rows)
        return found if found.num_columns else self._schema.empty_table()

    def _found(self) -> pa.Table:
        started = Path(self._directory, _STARTED)
        if not started.exists():
            return pa.table({})
        rows = Path(self._directory, started.read_text(encoding="utf-8"))
        return read_files(rows) if rows.exists() else pa.table({})


def collect(
    stream: Stream, where: Any, *, uid: str, directory: AnyPath | None, max_rows: int, parallelism: int | None
) -> pa.Table:
    """See `Stream.collect`."""
    job = stream._job
    for node in job.nodes:
        if node.source is not None and not node.source.is_bounded:
            raise ConfigurationError(
                f"collect: the source {node.uid!r} never ends, so neither does the job; write its rows with sink(...), "
                "or give it a source that ends"
            )
    rows = Collect(directory, max_rows=max_rows)
    before = list(job._nodes)
    try:
        stream.sink(rows, uid, parallelism=parallelism)
        status = job.run(where)
    finally:
        job._nodes[:] = before
    if status is not JobStatus.FINISHED:
        raise JobFailedError(f"collect: the job has not run to its end, it is {status.value}")
    return rows.table()


class _CollectWriter(FilesWriter):
    """Fails when it alone has written too much."""

    def __init__(self, directory: Path, context: SinkContext, max_rows: int) -> None:
        super().__init__(directory, _FORMAT, context, _MAX_FILE_BYTES)
        self._max_rows = max_rows
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self._rows > self._max_rows:
            raise _too_many(self._max_rows)
        super().write(batch)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a child of it
        shutil.rmtree(directory, ignore_errors=True)


def _too_many(max_rows: int) -> UserCodeError:
    return UserCodeError(
        f"Collect: there are more than {max_rows} rows; aggregate them first, write them with Files, or raise max_rows"
    )

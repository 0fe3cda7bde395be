"""Results that come back to the program that has started the job."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path

import pyarrow as pa

from snapline.api.sink import Sink, SinkContext, SinkWriter
from snapline.config import Path as AnyPath
from snapline.connectors.files import Files, FilesWriter, read_files
from snapline.connectors.generating import whole_number
from snapline.errors import ConfigurationError, StorageError, UserCodeError

_FORMAT = "arrow"
_MAX_FILE_BYTES = 256 << 20
_MAX_ROWS = 1_000_000_000


class Collect(Sink):
    """Rows for the program that starts the job: `table()` gives all that have been committed so far, exactly once.

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

    def writer(self, context: SinkContext) -> SinkWriter:
        if not Path(self._directory, self._mark).exists():
            raise StorageError(
                f"Collect: {self._directory!r} is not the directory of the program that has started the job, or that "
                "is gone; give a directory that all executors share with it: Collect(directory)"
            )
        return _CollectWriter(self._directory, context, self._max_rows)

    def table(self) -> pa.Table:
        """All rows of complete checkpoints, in no particular order but that of each subtask."""
        if self._schema is None:
            raise ConfigurationError("this Collect is no sink of any job yet; use stream.sink(collect, uid)")
        found = read_files(self._directory)
        if found.num_rows > self._max_rows:
            raise _too_many(self._max_rows)
        return found if found.num_columns else self._schema.empty_table()


class _CollectWriter(FilesWriter):
    """Fails when it alone has written too much."""

    def __init__(self, directory: str, context: SinkContext, max_rows: int) -> None:
        super().__init__(Path(directory), _FORMAT, context, _MAX_FILE_BYTES)
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

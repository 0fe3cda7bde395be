"""Results that return to the program that started the job."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from pathlib import Path

import pyarrow as pa

from snapline.config import Path as AnyPath
from snapline.config.setting_checks import count
from snapline.connectors.files.file_sink import Files, FilesWriter, read_files
from snapline.contracts.sink import Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, StorageError, UserCodeError

_TEMPORARY = "snapline-collect-"
_FORMAT = "arrow"
_STARTED = ".started"
"""Holds the id of the job started last; the rows of each job are in a directory named by its id."""

_MAX_FILE_BYTES = 256 << 20
_MAX_ROWS = 1_000_000_000


class Collect(Sink):
    """Collects rows for the program that starts the job: `table()` returns all committed rows, exactly once.

    They are the rows of the job started last: a second run does not add to the first, but a job resumed from its last
    checkpoint adds to its own rows. Rows written before a savepoint belong to the job that took it.

    Rows travel as files in a directory that this program and all executors share. Without `directory` it is a temporary
    local one, deleted together with this object, for jobs that run on this machine and end before this program. Give
    one if the job runs on a cluster or outlives this program.

    max_rows: a job with more rows fails, since all must fit into the memory of this program.
    """

    def __init__(self, directory: AnyPath | None = None, *, max_rows: int = 1_000_000) -> None:
        self._max_rows = count(max_rows, "max_rows", least=1, most=_MAX_ROWS)
        self._schema: pa.Schema | None = None
        if directory is None:
            self._directory = tempfile.mkdtemp(prefix=_TEMPORARY)
            weakref.finalize(self, _remove, self._directory, os.getpid())
        else:
            if "://" in os.fspath(directory):
                raise ConfigurationError(f"Collect({os.fspath(directory)!r}): use a directory of a local file system")
            self._directory = os.path.abspath(directory)
            os.makedirs(self._directory, exist_ok=True)
        # Proves to writers that they see this directory, not one with the same name on another machine.
        self._mark = f".collect-{secrets.token_hex(8)}"
        Path(self._directory, self._mark).touch()

    def check(self, schema: pa.Schema) -> None:
        if self._schema is not None:
            raise ConfigurationError("a Collect takes the rows of one stream; use another Collect for the other stream")
        Files(self._directory, format=_FORMAT).check(schema)
        self._schema = schema

    def starting(self, job_id: str) -> None:
        """From now on `table` returns the rows of this job, in every program that uses this directory."""
        started = Path(self._directory, _STARTED)
        made = started.with_name(f"{_STARTED}-{secrets.token_hex(8)}")
        made.write_text(job_id, encoding="utf-8")
        os.replace(made, started)

    def writer(self, context: SinkContext) -> SinkWriter:
        self.check_access()
        return _CollectWriter(Path(self._directory, context.job_id), context, self._max_rows)

    def check_access(self) -> None:
        if not Path(self._directory, self._mark).exists():
            raise StorageError(
                f"Collect: {self._directory!r} is not the directory of the program that started the job, or was "
                "deleted; give a directory that all executors share with that program: Collect(directory)"
            )

    def table(self) -> pa.Table:
        """All rows of complete checkpoints; only rows of the same subtask are in order."""
        if self._schema is None:
            raise ConfigurationError("this Collect is not a sink of any job yet; use stream.sink(collect, uid)")
        started = Path(self._directory, _STARTED)
        rows = Path(self._directory, started.read_text(encoding="utf-8")) if started.exists() else None
        found = read_files(rows) if rows is not None and rows.exists() else pa.table({})
        if found.num_rows > self._max_rows:
            raise _too_many(self._max_rows)
        return found if found.num_columns else self._schema.empty_table()


class _CollectWriter(FilesWriter):
    """Fails when it alone exceeds `max_rows`."""

    def __init__(self, directory: Path, context: SinkContext, max_rows: int) -> None:
        super().__init__(directory, _FORMAT, context, _MAX_FILE_BYTES)
        self._max_rows = max_rows
        self._rows = 0

    def _is_known(self, directory: Path) -> bool:
        # Also those of other jobs, from whose snapshots this one may have started.
        own, other = self._directory.parent, directory.parent
        is_temporary = own.name.startswith(_TEMPORARY) and other.name.startswith(_TEMPORARY)
        return other == own or (is_temporary and other.parent == own.parent)

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        if self._rows > self._max_rows:
            raise _too_many(self._max_rows)
        super().write(batch)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(directory, ignore_errors=True)


def _too_many(max_rows: int) -> UserCodeError:
    return UserCodeError(
        f"Collect: there are more than {max_rows} rows; aggregate them first, write them with Files, or raise max_rows"
    )

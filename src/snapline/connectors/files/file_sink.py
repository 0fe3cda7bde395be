"""Files as an exactly-once sink: rows stay in a hidden directory until their checkpoint is complete.

Committed files are in the sink's directory itself. `.pending/<job>/<uid>/` holds uncommitted ones, named
`<attempt>-open-<subtask>-<token>` while written and `<attempt>-<checkpoint>-<subtask>-<token>` once prepared. Tokens
are unique, so no file ever replaces another; they begin with digits of the job's lineage. Processes only rename and
delete whole files: a zombie finds its file gone, or does what had to be done anyway.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Sequence
from io import BufferedWriter
from pathlib import Path
from typing import Any

import pyarrow as pa

from snapline.config import Path as AnyPath
from snapline.config import Size, size_bytes
from snapline.connectors.files.file_encoders import WRITE_FORMATS, check_schema, encoder, read_whole
from snapline.connectors.files.partition_paths import PARTITION, is_path_type, partitions
from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, RestoreError, StorageError
from snapline.storage.objects.local_backend import sync_directory

PENDING = ".pending"

_PENDING_FILE = re.compile(r"(?P<attempt>\d+)-(?P<checkpoint>\d+|open)-(?P<subtask>\d+)-[0-9a-f]+\.[a-z]+")
_FLUSH_ROWS = 65_536
_FLUSH_BYTES = 16 << 20
_MAX_UID_IN_NAME = 80
_LINEAGE_DIGITS = 8
_SUFFIXES = {"csv_rows": "csv", "text": "txt"}
_MAX_OPEN = 100
"""Most files that a subtask writes at a time; more partitions close those that were not written to for longest."""


class Files(Sink):
    """Writes files to a local directory that all executors share, exactly once.

    Each subtask adds one file per checkpoint in which it has rows; the file is visible once the checkpoint is complete.
    Readers of the directory must skip names that start with a dot.

    format: "parquet", "orc", "csv", "jsonl" (one JSON object per line), "text" (one column, a line for each row) or
        "arrow" (an Arrow IPC stream).
    partition_by: columns whose values are in the names of directories, as in `country=se/year=2024`, instead of in
        the files.
    header: whether CSV files begin with the names of their columns.
    suffix: what the names of files end with, for "text", whose lines may be of any format; "txt" by default.
    first_line: what files of "text" begin with.
    max_file_size: a larger file is closed and the same checkpoint continues in another one.
    earlier_directories: where an earlier version of the job wrote to. What it had prepared there and not committed is
        committed there; in any other directory nothing is.
    """

    def __init__(
        self,
        directory: AnyPath,
        *,
        format: str = "parquet",
        max_file_size: Size = "1gb",
        partition_by: Sequence[str] = (),
        header: bool = True,
        suffix: str | None = None,
        first_line: str | None = None,
        earlier_directories: Sequence[AnyPath] = (),
    ) -> None:
        if format not in WRITE_FORMATS:
            raise ConfigurationError(f"Files(format={format!r}): use one of {', '.join(map(repr, WRITE_FORMATS))}")
        if format != "text" and (suffix is not None or first_line is not None):
            raise ConfigurationError(f"Files(format={format!r}): suffix and first_line are for 'text'")
        if suffix is not None and not re.fullmatch("[a-z]+", suffix):
            raise ConfigurationError(f"Files(suffix={suffix!r}): use small letters")
        self._max_file_bytes = size_bytes(max_file_size, setting="max_file_size")
        if self._max_file_bytes == 0:
            raise ConfigurationError(f'Files(max_file_size={max_file_size!r}): use more, for example "128mb"')
        self._directory = _absolute(directory)
        self._earlier = tuple(map(_absolute, earlier_directories))
        self._format = format if header or format != "csv" else "csv_rows"
        self._partition_by = tuple(partition_by)
        self._suffix = suffix
        self._first_line = first_line

    def check(self, schema: pa.Schema) -> None:
        schema = self._inside(schema)
        try:
            check_schema(self._format, schema)
        except pa.ArrowException as error:
            raise ConfigurationError(
                f"Files(format={self._format!r}) cannot hold these rows: {error}; change the columns with map_batches()"
            ) from error

    def _inside(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the files. Raises `ConfigurationError` if rows cannot be partitioned so."""
        for name in self._partition_by:
            if name not in schema.names or not is_path_type(schema.field(name).type):
                raise ConfigurationError(
                    f"Files(partition_by=[{name!r}]): name columns of text, whole numbers, decimals, booleans or "
                    f"dates; there are {', '.join(f'{field.name} {field.type}' for field in schema)}"
                )
        kept = [field for field in schema if field.name not in self._partition_by]
        if not kept:
            raise ConfigurationError("Files(partition_by=...): all columns; there must be others for the files")
        return pa.schema(kept)

    def check_access(self) -> None:
        place = Path(self._directory) / PENDING
        try:
            # Nothing is left behind: the directory is to belong to whoever writes, perhaps not the user of the driver.
            while not place.exists():
                place = place.parent
            probe = place / f".probe-{secrets.token_hex(8)}"
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise ConfigurationError(
                f"Files({self._directory!r}): {error}; use a directory that the driver and all executors share and may "
                "write to"
            ) from error

    def committed_until(self, lineage: str, uid: str) -> int | None:
        directory = Path(self._directory)
        names = [name for place, _, found in os.walk(directory) if PENDING not in Path(place).parts for name in found]
        own = re.compile(rf"{re.escape(uid[:_MAX_UID_IN_NAME])}-(\d+)-\d+-\d+-{_digits(lineage)}[0-9a-f]+\.[a-z]+")
        return max((int(match[1]) for name in names if (match := own.fullmatch(name)) is not None), default=None)

    def writer(self, context: SinkContext) -> SinkWriter:
        return FilesWriter(
            Path(self._directory),
            self._format,
            context,
            self._max_file_bytes,
            self._earlier,
            self._partition_by,
            suffix=self._suffix,
            first_line=self._first_line,
        )


class FilesWriter(SinkWriter):
    """Writes the files of one subtask."""

    def __init__(
        self,
        directory: Path,
        format: str,
        context: SinkContext,
        max_file_bytes: int,
        earlier_directories: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        *,
        suffix: str | None = None,
        first_line: str | None = None,
    ) -> None:
        self._suffix = suffix or _SUFFIXES.get(format, format)
        self._first_line = first_line
        self._known = {directory, *map(Path, earlier_directories)}
        self._max_file_bytes = max_file_bytes
        self._directory = directory
        self._format = format
        self._context = context
        self._pending = directory / PENDING / context.job_id / context.uid
        self._partition_by = tuple(partition_by)
        self._open: dict[str, _OpenFile] = {}
        """By the directory that they are for, the one that was written to last at the end."""
        self._full: list[_OpenFile] = []
        _make_directory(self._pending, directory)

    def write(self, batch: pa.RecordBatch) -> None:
        for place, rows in partitions(batch, self._partition_by) if self._partition_by else [("", batch)]:
            file = self._open.pop(place, None) or self._new_file(place, rows.schema)
            self._open[place] = file
            file.write(rows)
            if file.size_bytes >= self._max_file_bytes:
                self._finish_file(place)
        while len(self._open) > _MAX_OPEN:
            self._finish_file(next(iter(self._open)))

    def _new_file(self, place: str, schema: pa.Schema) -> _OpenFile:
        context, token = self._context, f"{_digits(self._context.lineage)}{secrets.token_hex(8)}"
        name = f"{context.attempt}-open-{context.subtask}-{token}.{self._suffix}"
        return _OpenFile(self._pending / name, place, self._format, schema, self._first_line)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        for place in list(self._open):
            self._finish_file(place)
        payloads = [self._prepared(file, checkpoint_id) for file in self._full]
        self._full = []
        if payloads:
            sync_directory(self._pending)
        return payloads

    def _finish_file(self, place: str) -> None:
        file = self._open.pop(place)
        file.finish()
        self._full.append(file)

    def _prepared(self, file: _OpenFile, checkpoint_id: int) -> dict[str, str]:
        name = file.path.name.replace("-open-", f"-{checkpoint_id}-", 1)
        try:
            os.rename(file.path, self._pending / name)
        except FileNotFoundError:
            raise StorageError(
                f"{file.path} was deleted before it was prepared: a newer attempt of the job has taken over, or "
                f"somebody cleaned up {self._pending}; delete nothing there while the job runs"
            ) from None
        final = self._directory / file.place / self._final_name(name)
        return {"pending": str(self._pending / name), "final": str(final)}

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        # The paths of the writer that prepared it, perhaps of another job or directory than this one's.
        pending, final = Path(committable.payload["pending"]), Path(committable.payload["final"])
        self._check_paths(committable.name, pending, final)
        if not self._is_known(final.parent):
            _make_directory(final.parent, self._root_of(final))
        try:
            os.rename(pending, final)
            result = CommitResult.COMMITTED
        except FileNotFoundError:
            if not final.exists():
                raise StorageError(
                    f"{committable.name} cannot be committed: there is neither {pending} nor {final}. Rows are lost "
                    "unless somebody moved the committed file; restore an older snapshot that does not need it"
                ) from None
            result = CommitResult.ALREADY_COMMITTED
        # Also if another process renamed it: it may have died before the sync.
        sync_directory(final.parent)
        return result

    def _check_paths(self, name: str, pending: Path, final: Path) -> None:
        """Raise `RestoreError` unless these are names that a writer of a known directory gives to its files.

        They come from a snapshot, which others may have written: no other file may be moved, nor replaced.
        """
        directory = self._root_of(final)
        if not self._is_known(directory):
            raise RestoreError(
                f"{name} names {final}, which is in no directory of this sink; if an earlier version of the job wrote "
                "there, name it in Files(..., earlier_directories=[...])"
            )
        root = os.path.realpath(directory / PENDING)
        match = _PENDING_FILE.fullmatch(pending.name)
        if (
            match is None
            or match["checkpoint"] == "open"
            or not final.name.endswith(_place_in_name(pending.name))
            or not os.path.realpath(pending.parent).startswith(f"{root}/")
            or root != os.path.join(os.path.realpath(directory), PENDING)
            or pending.is_symlink()
        ):
            raise RestoreError(f"{name} does not name a file that this sink has prepared, but {pending}, for {final}")

    def _root_of(self, final: Path) -> Path:
        """The directory of a sink that a committed file is in, below directories of partitions."""
        directory = final.parent
        while PARTITION.fullmatch(directory.name) and not self._is_known(directory):
            directory = directory.parent
        return directory

    def _is_known(self, directory: Path) -> bool:
        return directory in self._known

    def abort_newer(self, checkpoint_id: int) -> None:
        for path in self._pending.iterdir():
            match = _PENDING_FILE.fullmatch(path.name)
            if match is None or int(match["attempt"]) >= self._context.attempt:
                continue
            if match["checkpoint"] == "open" or int(match["checkpoint"]) > checkpoint_id:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        full, self._full = self._full, []
        for done in full:
            done.path.unlink(missing_ok=True)
        unfinished, self._open = self._open, {}
        for file in unfinished.values():
            file.abandon()

    def _final_name(self, pending: str) -> str:
        """Starts with the uid and sorts by checkpoint."""
        return f"{self._context.uid[:_MAX_UID_IN_NAME]}{_place_in_name(pending)}"


class _OpenFile:
    """A file being written. Buffers batches, so that it does not consist of tiny row groups.

    `place` is the directory that it is for, below that of the sink.
    """

    def __init__(self, path: Path, place: str, format: str, schema: pa.Schema, first_line: str | None = None) -> None:
        self.path = path
        self.place = place
        self._file: BufferedWriter = open(path, "xb")  # noqa: SIM115  # closed by finish or abandon
        if first_line is not None:
            self._file.write(f"{first_line}\n".encode())
        self._encoder = encoder(format, self._file, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES:
            self._flush()

    @property
    def size_bytes(self) -> int:
        """The approximate size, including buffered batches."""
        return self._file.tell() + self._bytes

    def finish(self) -> None:
        """Complete the file and make it durable."""
        self._flush()
        self._encoder.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Delete the file; its rows will be written again."""
        try:
            self._encoder.close()
        finally:
            self._file.close()
            self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            self._encoder.write(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0


def read_files(directory: AnyPath) -> pa.Table:
    """All committed rows of a directory, file by file; a table without columns if there are none."""
    found = [read_whole(path) for path in sorted(Path(directory).iterdir())]
    tables = [table for table in found if table is not None]
    return pa.concat_tables(tables) if tables else pa.table({})


def _digits(lineage: str) -> str:
    return hashlib.sha256(lineage.encode()).hexdigest()[:_LINEAGE_DIGITS]


def _place_in_name(pending: str) -> str:
    """The end of the name of a committed file."""
    attempt, checkpoint, subtask, rest = pending.split("-", 3)
    return f"-{int(checkpoint):010d}-{subtask}-{attempt}-{rest}"


def _absolute(directory: AnyPath) -> str:
    path = os.fspath(directory)
    if "://" in path:
        raise ConfigurationError(f"Files({path!r}): only directories of the local file system can be written")
    # Executors have another working directory.
    return os.path.abspath(path)


def _make_directory(path: Path, root: Path) -> None:
    """Make a directory below `root` that survives a crash of the machine."""
    path.mkdir(parents=True, exist_ok=True)
    while path != root.parent and path != path.parent:
        path = path.parent
        sync_directory(path)

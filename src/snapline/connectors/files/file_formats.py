"""Readers of one file that can start at any position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq

from snapline.config import StorageOptions
from snapline.connectors.files.file_listing import NO_OPTIONS, stored_objects
from snapline.connectors.files.file_rows import FileRows
from snapline.connectors.files.line_rows import LineParser, LineRows
from snapline.connectors.files.orc_rows import OrcRows
from snapline.connectors.files.text_records import (
    ObjectLines,
    TextRecords,
    csv_options,
    is_damage,
    json_options,
    unreadable,
)
from snapline.contracts.dead_letters import row_json, salvaged
from snapline.contracts.schemas import conform
from snapline.contracts.source import BadRow, Position, Wait, fail
from snapline.errors import ConfigurationError, StorageError, UserCodeError
from snapline.text import for_row

READ_FORMATS = ("parquet", "csv", "jsonl", "orc", "text")

_BATCH_ROWS = 32_768
_BLOCK_BYTES = 1 << 20
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def open_rows(
    path: str,
    format: str,
    schema: pa.Schema,
    groups: Sequence[int] | None = None,
    position: Position = None,
    bad_row: Callable[[BadRow], None] = fail,
    options: StorageOptions = NO_OPTIONS,
    *,
    header: bool = True,
    parse: LineParser | None = None,
    fills_missing: bool = False,
) -> FileRows:
    """The rows of a file with the columns of `schema`; for Parquet, only row groups `groups[0]` up to `groups[1]` - 1.

    A CSV file has the names of its columns in the first line, or without `header` the columns of `schema`. `parse`
    makes rows of the lines of text, with `header` of all but the first. With `fills_missing` columns of Parquet files
    are found whatever the case of their names, and null where there are none.

    Errors, raised here or by `read`, name the file: `UserCodeError` if its content is wrong. Rows that cannot be read
    are given to `bad_row`, and skipped if that returns. `options` says how to reach remote storage.
    """
    with _explained(path, format):
        if format == "parquet":
            return _ParquetRows(path, schema, groups, position, bad_row, options, fills_missing=fills_missing)
        if format == "orc":
            return OrcRows(path, _opened(path, options), schema, position)
        if format == "text":
            return LineRows(_text_stream(path, options), schema, position, parse, header=header and parse is not None)
        return _TextRows(path, format, schema, position, bad_row, options, None if header else schema.names)


def infer_schema(path: str, format: str, options: StorageOptions = NO_OPTIONS) -> pa.Schema:
    """The schema of a file; for text, inferred from its first block. Raises `ConfigurationError` if that fails."""
    try:
        with _explained(path, format):
            if format == "parquet":
                with pq.ParquetFile(_opened(path, options)) as file:
                    return file.schema_arrow
            if format == "orc":
                with _opened(path, options) as source:
                    return pyarrow.orc.ORCFile(source).schema
            if format == "text":
                return pa.schema([("value", pa.string())])
            with _text_stream(path, options) as stream:
                schema = _text_reader(stream, format, None).schema
    except (UserCodeError, StorageError) as error:
        raise ConfigurationError(f"cannot infer the schema of the first file: {error}, or give schema=") from error
    for field in schema:
        if pa.types.is_null(field.type):
            raise ConfigurationError(
                f"{path!r}: cannot infer the type of the column {field.name!r}, it has no values; give schema="
            )
    return schema


def row_groups(path: str, options: StorageOptions = NO_OPTIONS) -> int:
    """The number of row groups of a Parquet file."""
    with _explained(path, "parquet"), pq.ParquetFile(_opened(path, options)) as file:
        return int(file.num_row_groups)


class _ParquetRows(FileRows):
    """A position is a row group and a row within it."""

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        groups: Sequence[int] | None,
        position: Position,
        bad_row: Callable[[BadRow], None],
        options: StorageOptions,
        *,
        fills_missing: bool = False,
    ) -> None:
        self._path = path
        self._schema = schema
        self._bad_row = bad_row
        self._source = _opened(path, options)
        self._file = pq.ParquetFile(self._source)
        found = self._file.schema_arrow.names
        self._names = dict(zip(schema.names, schema.names, strict=True))
        """The columns of the file by those of the schema."""
        if fills_missing:
            by_case = {name.lower(): name for name in reversed(found)}
            given = {name: name if name in found else by_case.get(name.lower()) for name in schema.names}
            self._names = {name: there for name, there in given.items() if there is not None}
        for name in self._names.values():
            if name not in found:
                raise UserCodeError(
                    f"the file {path!r} has no column {name!r}; it has {', '.join(map(repr, found))}. Move it out of "
                    "the directory, or correct schema="
                )
        first, end = groups or (0, self._file.num_row_groups)
        group, row = position or (first, 0)
        self._end = int(end)
        self._group = int(group)
        self._row = self._to_skip = int(row)
        self._batches: Iterator[pa.RecordBatch] | None = None

    def read(self) -> pa.RecordBatch | Wait | None:
        while self._group < self._end:
            try:
                with _explained(self._path, "parquet", f", row group {self._group} from row {self._row} on,"):
                    if self._batches is None:
                        there = list(self._names.values())
                        self._batches = self._file.iter_batches(_BATCH_ROWS, [self._group], columns=there)
                    batch = next(self._batches, None)
            except UserCodeError as error:
                self._bad_row(BadRow(error, None, self._path))
                batch = None
            if batch is None:
                self._group, self._row, self._to_skip, self._batches = self._group + 1, 0, 0, None
                continue
            skipped = min(self._to_skip, batch.num_rows)
            self._to_skip -= skipped
            if skipped < batch.num_rows:
                self._row += batch.num_rows - skipped
                return self._conforming(batch.slice(skipped))
        return None

    def _conforming(self, batch: pa.RecordBatch) -> pa.RecordBatch | Wait:
        """The rows with the schema; those that do not fit it are bad."""
        if list(self._names) != self._schema.names or list(self._names.values()) != batch.schema.names:
            columns = [
                batch.column(self._names[field.name])
                if field.name in self._names
                else pa.nulls(batch.num_rows, field.type)
                for field in self._schema
            ]
            batch = pa.RecordBatch.from_arrays(columns, names=self._schema.names)

        def attempt(start: int, end: int) -> pa.RecordBatch:
            return conform(batch.slice(start, end - start), self._schema, f"the file {self._path!r}")

        def bad(number: int, error: Exception) -> None:
            (row,) = batch.slice(number, 1).to_pylist()
            problem = UserCodeError(f"{error}{for_row(row)}")
            problem.__cause__ = error
            self._bad_row(BadRow(problem, row_json(row), self._path))

        parts = list(salvaged(attempt, 0, batch.num_rows, bad))
        if len(parts) < 2:
            return parts[0] if parts else Wait(0)
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    @property
    def position(self) -> Position:
        return [self._group, self._row]

    def close(self) -> None:
        self._file.close()
        self._source.close()


class _TextRows(FileRows):
    """A position is a number of rows. Seeking reads all earlier rows again: line ends cannot be found otherwise.

    Arrow reads whole blocks. Once that fails, the rest of the file is read record by record.
    """

    def __init__(
        self,
        path: str,
        format: str,
        schema: pa.Schema,
        position: Position,
        bad_row: Callable[[BadRow], None],
        options: StorageOptions,
        names: list[str] | None,
    ) -> None:
        self._path = path
        self._format = format
        self._schema = schema
        self._bad_row = bad_row
        self._options = options
        self._names = names
        self._to_skip = self._row = position or 0
        self._records: TextRecords | None = None
        self._stream = _text_stream(path, options)
        try:
            self._reader = _text_reader(self._stream, format, schema, names)
        except (pa.ArrowInvalid, OSError) as error:
            self._reader = iter(())
            if not str(error).startswith("Empty "):
                self._begin_records(error)

    def read(self) -> pa.RecordBatch | Wait | None:
        with _explained(self._path, self._format):
            if self._records is not None:
                return self._records.read()
            try:
                return self._read_block()
            except (pa.ArrowInvalid, UserCodeError, OSError) as error:
                self._begin_records(error)
        return Wait(0)

    def _read_block(self) -> pa.RecordBatch | Wait | None:
        batch = next(self._reader, None)
        if batch is None:
            return None
        skipped = min(self._to_skip, batch.num_rows)
        rows = conform(batch.slice(skipped), self._schema, f"the file {self._path!r}")
        self._to_skip -= skipped
        self._row += rows.num_rows
        return rows if rows.num_rows else Wait(0)

    def _begin_records(self, error: Exception) -> None:
        if isinstance(error, OSError) and not is_damage(error):
            raise error
        self._stream.close()
        self._stream = _text_stream(self._path, self._options)
        self._records = TextRecords(
            self._path, self._format, self._schema, self._stream, self._row, self._bad_row, self._names
        )

    @property
    def position(self) -> Position:
        return self._row if self._records is None else self._records.position

    def close(self) -> None:
        self._stream.close()


def _opened(path: str, options: StorageOptions) -> pa.NativeFile:
    return pa.PythonFile(stored_objects(options).open(path)) if "://" in path else pa.OSFile(path)


def _text_stream(path: str, options: StorageOptions) -> pa.NativeFile:
    codec = next((codec for suffix, codec in _COMPRESSED.items() if path.endswith(suffix)), None)
    source = _opened(path, options)
    return source if codec is None else pa.CompressedInputStream(source, codec)


def _text_reader(stream: pa.NativeFile, format: str, schema: pa.Schema | None, names: list[str] | None = None) -> Any:
    """Iterates over the batches of a text stream and has their schema. Columns not in `schema` are dropped."""
    if format == "csv":
        return pyarrow.csv.open_csv(stream, *csv_options(schema, _BLOCK_BYTES, names))
    return pyarrow.json.open_json(pa.PythonFile(ObjectLines(stream), "r"), *json_options(schema, _BLOCK_BYTES))


@contextmanager
def _explained(path: str, format: str, place: str = "") -> Iterator[None]:
    """Turns errors of pyarrow into ours, which name the file."""
    try:
        yield
    except OSError as error:
        if is_damage(error):
            raise unreadable(path, format, error, place) from None
        raise StorageError(
            f"the file {path!r} cannot be read: {error}; do not change or delete files before they are read"
        ) from error
    except pa.ArrowException as error:
        raise unreadable(path, format, error, place) from error

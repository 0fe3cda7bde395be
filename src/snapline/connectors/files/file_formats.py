"""Readers of one file that can start at any position."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from snapline.connectors.files.file_listing import stored_objects
from snapline.contracts.schemas import conform
from snapline.contracts.source import Position, Wait
from snapline.errors import ConfigurationError, StorageError, UserCodeError

READ_FORMATS = ("parquet", "csv", "jsonl")

_BATCH_ROWS = 32_768
_BLOCK_BYTES = 1 << 20
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_CSV_COLUMN = re.compile(r"CSV column #(\d+)")


class FileRows(ABC):
    """The rows of a file or of a part of it. `position` is that of the next row."""

    @abstractmethod
    def read(self) -> pa.RecordBatch | Wait | None:
        """The next rows; None at the end."""

    @property
    @abstractmethod
    def position(self) -> Position: ...

    @abstractmethod
    def close(self) -> None: ...


def open_rows(
    path: str, format: str, schema: pa.Schema, groups: Sequence[int] | None = None, position: Position = None
) -> FileRows:
    """The rows of a file with the columns of `schema`; for Parquet, only row groups `groups[0]` up to `groups[1]` - 1.

    Errors, raised here or by `read`, name the file.
    """
    with _explained(path, format):
        if format == "parquet":
            return _ParquetRows(path, schema, groups, position)
        return _TextRows(path, format, schema, position)


def infer_schema(path: str, format: str) -> pa.Schema:
    """The schema of a file; for text, inferred from its first block. Raises `ConfigurationError` if that fails."""
    try:
        with _explained(path, format):
            if format == "parquet":
                with pq.ParquetFile(_opened(path)) as file:
                    return file.schema_arrow
            with _text_stream(path) as stream:
                schema = _text_reader(stream, format, None).schema
    except (UserCodeError, StorageError) as error:
        raise ConfigurationError(f"cannot infer the schema of the first file: {error}, or give schema=") from error
    for field in schema:
        if pa.types.is_null(field.type):
            raise ConfigurationError(
                f"{path!r}: cannot infer the type of the column {field.name!r}, it has no values; give schema="
            )
    return schema


def row_groups(path: str) -> int:
    """The number of row groups of a Parquet file."""
    with _explained(path, "parquet"), pq.ParquetFile(_opened(path)) as file:
        return int(file.num_row_groups)


class _ParquetRows(FileRows):
    """A position is a row group and a row within it."""

    def __init__(self, path: str, schema: pa.Schema, groups: Sequence[int] | None, position: Position) -> None:
        self._path = path
        self._schema = schema
        self._source = _opened(path)
        self._file = pq.ParquetFile(self._source)
        found = self._file.schema_arrow.names
        for name in schema.names:
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
        with _explained(self._path, "parquet"):
            while self._group < self._end:
                if self._batches is None:
                    self._batches = self._file.iter_batches(_BATCH_ROWS, [self._group], columns=self._schema.names)
                batch = next(self._batches, None)
                if batch is None:
                    self._group, self._row, self._batches = self._group + 1, 0, None
                    continue
                skipped = min(self._to_skip, batch.num_rows)
                self._to_skip -= skipped
                if skipped < batch.num_rows:
                    self._row += batch.num_rows - skipped
                    return conform(batch.slice(skipped), self._schema, f"the file {self._path!r}")
        return None

    @property
    def position(self) -> Position:
        return [self._group, self._row]

    def close(self) -> None:
        self._file.close()
        self._source.close()


class _TextRows(FileRows):
    """A position is a number of rows. Seeking reads all earlier rows again: line ends cannot be found otherwise."""

    def __init__(self, path: str, format: str, schema: pa.Schema, position: Position) -> None:
        self._path = path
        self._format = format
        self._schema = schema
        self._to_skip = self._row = position or 0
        self._stream = _text_stream(path)
        try:
            self._reader = _text_reader(self._stream, format, schema)
        except pa.ArrowInvalid as error:
            if not str(error).startswith("Empty "):
                raise
            self._reader = iter(())

    def read(self) -> pa.RecordBatch | Wait | None:
        with _explained(self._path, self._format):
            batch = next(self._reader, None)
        if batch is None:
            return None
        skipped = min(self._to_skip, batch.num_rows)
        self._to_skip -= skipped
        if skipped == batch.num_rows:
            return Wait(0)
        self._row += batch.num_rows - skipped
        return conform(batch.slice(skipped), self._schema, f"the file {self._path!r}")

    @property
    def position(self) -> Position:
        return self._row

    def close(self) -> None:
        self._stream.close()


def _opened(path: str) -> pa.NativeFile:
    return pa.PythonFile(stored_objects().open(path)) if "://" in path else pa.OSFile(path)


def _text_stream(path: str) -> pa.NativeFile:
    codec = next((codec for suffix, codec in _COMPRESSED.items() if path.endswith(suffix)), None)
    return _opened(path) if codec is None else pa.CompressedInputStream(_opened(path), codec)


def _text_reader(stream: pa.NativeFile, format: str, schema: pa.Schema | None) -> Any:
    """Iterates over the batches of a text stream and has their schema. Columns not in `schema` are dropped."""
    if format == "csv":
        return pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=schema,
                include_columns=None if schema is None else schema.names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    return pyarrow.json.open_json(
        stream,
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _csv_names(path: str) -> list[str]:
    with _text_stream(path) as stream:
        names: list[str] = _text_reader(stream, "csv", None).schema.names
    return names


@contextmanager
def _explained(path: str, format: str) -> Iterator[None]:
    """Turns errors of pyarrow into ours, which name the file and, where known, the column."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the file {path!r} cannot be read: {error}; do not change or delete files before they are read"
        ) from error
    except pa.ArrowException as error:
        number = _CSV_COLUMN.search(str(error))
        column = "" if number is None else f", column {_csv_names(path)[int(number[1])]!r},"
        raise UserCodeError(f"the file {path!r}{column} cannot be read as {format}: {error}; check the file") from error

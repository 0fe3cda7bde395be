"""Encoders that write rows to files, and readers of whole files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq

from snapline.connectors.files.parquet_groups import ParquetGroups
from snapline.contracts.schemas import empty_batch


class Encoder(ABC):
    """Writes batches of one schema to an open file. Raises `pyarrow.ArrowException` if the format cannot hold them."""

    @abstractmethod
    def write(self, batches: Sequence[pa.RecordBatch]) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Write the footer. The file stays open."""


class _JsonEncoder(Encoder):
    def __init__(self, file: Any, schema: pa.Schema) -> None:
        for field in schema:
            if getattr(field.type, "unit", "") == "ns":
                raise pa.ArrowInvalid(f"{field.name!r} is in nanoseconds, which JSON lines cannot hold")
        self._file = file
        self._encoder = msgspec.json.Encoder()

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._file.write(self._encoder.encode_lines(batch.to_pylist(maps_as_pydicts="lossy")))

    def close(self) -> None:
        self._file.flush()


class _LineEncoder(Encoder):
    """Writes the one column of rows as lines."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        if schema.types != [pa.string()]:
            raise pa.ArrowInvalid("text files hold one column, of text")
        self._file = file

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            lines = batch.column(0).to_pylist()
            self._file.write("".join(f"{line or ''}\n" for line in lines).encode())

    def close(self) -> None:
        self._file.flush()


class _OrcEncoder(Encoder):
    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._writer = pyarrow.orc.ORCWriter(file)
        self._schema = schema
        self._is_empty = True

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._writer.write(pa.Table.from_batches(batches))
        self._is_empty = False

    def close(self) -> None:
        if self._is_empty:
            self._writer.write(self._schema.empty_table())
        self._writer.close()


class _BatchEncoder(Encoder):
    """Adapts the pyarrow writers that have `write_batch`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _ParquetEncoder(Encoder):
    """Writes batches together, as one row group."""

    def __init__(self, file: Any, schema: pa.Schema) -> None:
        self._groups = ParquetGroups(file, schema)

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._groups.write(batches)

    def close(self) -> None:
        self._groups.close()


_ENCODERS: dict[str, Callable[[Any, pa.Schema], Encoder]] = {
    "parquet": _ParquetEncoder,
    "csv": lambda file, schema: _BatchEncoder(pyarrow.csv.CSVWriter(file, schema)),
    "csv_rows": lambda file, schema: _BatchEncoder(
        pyarrow.csv.CSVWriter(file, schema, write_options=pyarrow.csv.WriteOptions(include_header=False))
    ),
    "jsonl": _JsonEncoder,
    "text": _LineEncoder,
    "orc": _OrcEncoder,
    "arrow": lambda file, schema: _BatchEncoder(pa.ipc.new_stream(file, schema)),
}
WRITE_FORMATS = tuple(name for name in _ENCODERS if name != "csv_rows")
"""`csv_rows` is CSV without the names of the columns."""


def encoder(format: str, file: Any, schema: pa.Schema) -> Encoder:
    """An encoder for one of `WRITE_FORMATS` that writes to an open file."""
    return _ENCODERS[format](file, schema)


def check_schema(format: str, schema: pa.Schema) -> None:
    """Raises `pyarrow.ArrowException` if files of this format cannot hold rows of this schema."""
    trial = encoder(format, BytesIO(), schema)
    trial.write([empty_batch(schema)])
    trial.close()


def read_whole(path: Path) -> pa.Table | None:
    """All rows of a file, read by its suffix, or None if the suffix is unknown."""
    match path.suffix:
        case ".parquet":
            return pq.ParquetFile(path).read()
        case ".csv":
            return pyarrow.csv.read_csv(path)
        case ".jsonl":
            return pyarrow.json.read_json(path)
        case ".txt":
            return pa.table({"value": path.read_text().splitlines()})
        case ".orc":
            return pyarrow.orc.read_table(path)
        case ".arrow":
            with pa.ipc.open_stream(path.read_bytes()) as reader:
                return reader.read_all()
    return None

"""Rows of a query as Arrow batches, from the CSV text of COPY."""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as pt

from snapline.connectors.postgres.postgres_connection import load_psycopg
from snapline.connectors.postgres.postgres_table import quote
from snapline.connectors.postgres.postgres_types import arrow_type
from snapline.errors import UserCodeError

if TYPE_CHECKING:
    from snapline.connectors.postgres.postgres_connection import Connection

_NULL = ""
_HEX_DIGITS = np.full(256, 255, np.uint8)
_HEX_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column of a query: its name, the internal name of its type, and the modifier of the type."""

    name: str
    kind: str
    modifier: int = -1

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, arrow_type(self.kind, self.modifier))

    @property
    def selected(self) -> str:
        """How the query names it: arrays come as JSON."""
        name = quote(self.name)
        return f"array_to_json({name})::text AS {name}" if pt.is_list(self.field.type) else name


def query_columns(connection: Connection, relation: str) -> list[QueryColumn]:
    """The columns of a table, or of a query in parentheses."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {relation} LIMIT 0".encode())
        result = cursor.pgresult
        assert result is not None
        count = result.nfields
        kinds = [result.ftype(index) for index in range(count)]
        names = [(result.fname(index) or b"").decode() for index in range(count)]
        modifiers = [result.fmod(index) for index in range(count)]
        cursor.execute(
            "SELECT t.oid::bigint, coalesce(b.typname, t.typname) FROM pg_type t "
            "LEFT JOIN pg_type b ON b.oid = nullif(t.typbasetype, 0) WHERE t.oid = ANY (%s::oid[])",
            (kinds,),
        )
        by_oid: dict[int, str] = dict(cursor.fetchall())
    return [
        QueryColumn(name, by_oid.get(kind, "text"), modifier)
        for name, kind, modifier in zip(names, kinds, modifiers, strict=True)
    ]


class CopiedRows:
    """The rows of one COPY, a batch at a time."""

    def __init__(self, connection: Connection, statement: str, columns: Sequence[QueryColumn], what: str) -> None:
        self._columns = columns
        self._what = what
        self._schema = pa.schema([column.field for column in columns])
        self._connection = connection
        self._cursor = connection.cursor()
        self._context = self._cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT csv)".encode())
        self._context.__enter__()
        self._convert = pa.csv.ConvertOptions(
            column_types={str(index): _csv_type(field.type) for index, field in enumerate(self._schema)},
            null_values=[_NULL],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        self._is_over = False
        self._names = [str(index) for index in range(len(columns))]

    def read(self, most_rows: int) -> pa.RecordBatch | None:
        """The next rows, in order; None at the end."""
        text = b"".join(self._lines(most_rows))
        if not text:
            self._context.__exit__(None, None, None)
            self._cursor.close()
            return None
        # Of a single column, an empty line is a null.
        parse = pa.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        read = pa.csv.ReadOptions(column_names=self._names, block_size=len(text) + 1, use_threads=False)
        try:
            table = pa.csv.read_csv(pa.BufferReader(text), read, parse, self._convert)
            arrays = [
                _converted(column.combine_chunks(), field.type)
                for column, field in zip(table.columns, self._schema, strict=True)
            ]
        except (pa.ArrowException, msgspec.DecodeError, ValueError) as error:
            raise UserCodeError(
                f"{self._what}: a value has no counterpart in {', '.join(map(str, self._schema.types))} ({error}); "
                "cast its column to text in a query"
            ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _lines(self, most: int) -> list[memoryview]:
        """Rows as they come, each in a buffer of its own. psycopg's own loop takes five times as long."""
        lines: list[memoryview] = []
        if self._is_over:
            return lines
        driver, psycopg = self._connection.pgconn, load_psycopg()
        # Not select, which fails for the numbers of sockets in processes with many open files.
        data_came = select.poll()
        data_came.register(driver.socket, select.POLLIN)
        while len(lines) < most:
            size, data = driver.get_copy_data(1)
            if size > 0:
                lines.append(data)
            elif size == 0:
                data_came.poll()
                driver.consume_input()
            else:
                self._is_over = True
                result = driver.get_result()
                while driver.get_result() is not None:
                    pass
                if result is not None and result.status != psycopg.pq.ExecStatus.COMMAND_OK:
                    raise psycopg.errors.error_from_result(result)
                break
        return lines


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pt.is_list(kind) or pt.is_binary(kind) else kind


def _converted(array: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if pt.is_list(kind):
        decode = msgspec.json.Decoder().decode
        return pa.array([None if text is None else decode(text) for text in array.to_pylist()], kind)
    return _from_hex(array) if pt.is_binary(kind) else array


def _from_hex(array: pa.Array) -> pa.Array:
    """Bytes from text such as `\\x00ff`."""
    text = pc.utf8_slice_codeunits(array, 2).cast(pa.large_string())
    offsets = np.frombuffer(text.buffers()[1], np.int64, len(text) + 1, text.offset * 8)
    data = text.buffers()[2]
    used = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    digits = _HEX_DIGITS[used[offsets[0] : offsets[-1]]].reshape(-1, 2)
    values = (digits[:, 0] << 4) | digits[:, 1]
    buffers = [None, pa.py_buffer((offsets - offsets[0]) // 2), pa.py_buffer(values)]
    found = pa.Array.from_buffers(pa.large_binary(), len(text), buffers)
    return pc.if_else(array.is_valid(), found, pa.scalar(None, pa.large_binary())).cast(pa.binary())

"""Text files record by record: slower than Arrow's readers, but a bad record does not take the others along."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from snapline.contracts.dead_letters import salvaged
from snapline.contracts.schemas import conform
from snapline.contracts.source import BadRow, Wait
from snapline.errors import UserCodeError
from snapline.text import explanation, for_line

_CHUNK_BYTES = 1 << 16
"""A damaged file loses at most this much more than what cannot be decompressed."""

_MAX_RECORD_BYTES = 1 << 24
"""A quote in CSV that is not closed within this length never is."""

_RECORDS = 1000
"""Records that are parsed together."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CSV_FIELD = rb'(?:"(?:[^"]++|"")*+"[^,\r\n]*+|(?!")[^,\r\n]*+)'
_CSV_RECORD = re.compile(_CSV_FIELD + rb"(?:," + _CSV_FIELD + rb")*+(?:\r\n|\r|\n|\Z)")
_NULL_LINE = re.compile(rb"\n[ \t\r]*null")
_TAIL_BYTES = 64
_CSV_COLUMN = re.compile(r"CSV column #(\d+)")
_INNER_PLACE = re.compile(r"In CSV column #\d+: |Row #\d+: | in row \d+$")
"""Where Arrow sees an error: in the records it was given, not in the file."""

_LINE_END = re.compile(rb"\r\n|\r|\n")


class Record(NamedTuple):
    """A record with its line end, and the number of its first line. In a broken one a quote is never closed."""

    line: int
    data: bytes
    is_broken: bool = False


def records(stream: Any, format: str) -> Iterator[Record]:
    """The records of a text file, without empty lines. A quote that is never closed spoils only its line."""
    find_end = _csv_end if format == "csv" else _line_end
    buffer, start, line, is_last = b"", 0, 1, False
    while True:
        found = find_end(buffer, start, is_last)
        if found is None:
            more = stream.read(max(_CHUNK_BYTES, len(buffer) - start))
            buffer, start, is_last = buffer[start:] + more, 0, not more
            continue
        end, is_broken = found
        if end == start:
            return
        data = buffer[start:end]
        if line == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if data.strip(b"\r\n" if format == "csv" else None):
            yield Record(line, data, is_broken)
        line += len(_LINE_END.findall(data)) if format == "csv" else 1
        start = end


def _line_end(buffer: bytes, start: int, is_last: bool) -> tuple[int, bool] | None:
    """The end of the record that starts here; None if more of the file is needed to tell."""
    end = buffer.find(b"\n", start) + 1
    if end:
        return end, False
    return (len(buffer), False) if is_last else None


def _csv_end(buffer: bytes, start: int, is_last: bool) -> tuple[int, bool] | None:
    match = _CSV_RECORD.match(buffer, start)
    if match is not None and (is_last or match.end() < len(buffer)):
        return match.end(), False
    if match is not None or not (is_last or len(buffer) - start > _MAX_RECORD_BYTES):
        return None
    line = _LINE_END.search(buffer, start)
    return (len(buffer) if line is None else line.end()), True


class TextRecords:
    """Reads a text file record by record from a position, which counts records, bad ones included.

    `names` are the columns of a CSV file that does not begin with them.
    """

    def __init__(
        self,
        path: str,
        format: str,
        schema: pa.Schema,
        stream: pa.NativeFile,
        position: int,
        bad_row: Callable[[BadRow], None],
        names: list[str] | None = None,
    ) -> None:
        self._path = path
        self._format = format
        self._schema = schema
        self._bad_row = bad_row
        self._records = records(stream, format)
        self._names = names if names is not None else self._header() if format == "csv" else []
        self._damage: OSError | None = None
        self._line = 0
        self.position = position
        self._skip(position)

    def read(self) -> pa.RecordBatch | Wait | None:
        """The next rows; None at the end of what can be read. Reports each bad record."""
        some = self._next(_RECORDS)
        if not some:
            if self._damage is not None:
                error = unreadable(self._path, self._format, self._damage, f", after line {self._line},")
                self._damage = None
                self._bad_row(BadRow(error, None, self._path))
            return None
        parts = list(salvaged(lambda start, end: self._parsed(some[start:end]), 0, len(some), self._bad(some)))
        self.position += len(some)
        good = pa.Table.from_batches(parts, self._schema).combine_chunks().to_batches()
        return good[0] if good else Wait(0)

    def _header(self) -> list[str]:
        names: list[str] = []
        for header in islice(self._records, 1):
            names = pyarrow.csv.read_csv(BytesIO(header.data)).schema.names
        missing = [name for name in self._schema.names if name not in names]
        if missing:
            raise pa.ArrowInvalid(f"there is no column {missing[0]!r} in the first line")
        return names

    def _skip(self, count: int) -> None:
        while count:
            skipped = len(self._next(min(count, _RECORDS)))
            if not skipped:
                return
            count -= skipped

    def _next(self, count: int) -> list[Record]:
        some: list[Record] = []
        try:
            for record in islice(self._records, count):
                some.append(record)
        except OSError as error:
            if not is_damage(error):
                raise
            self._damage = error
        if some:
            self._line = some[-1].line
        return some

    def _parsed(self, some: Sequence[Record]) -> pa.RecordBatch:
        """Records as a batch. Raises whatever Arrow raises, or `UserCodeError`."""
        if any(record.is_broken for record in some):
            raise pa.ArrowInvalid("a quote is not closed")
        data = b"".join(record.data for record in some)
        if self._format == "csv":
            table = pyarrow.csv.read_csv(BytesIO(data), *csv_options(self._schema, len(data) + 1, self._names))
        else:
            if any(not record.data.lstrip().startswith(b"{") for record in some):
                raise pa.ArrowInvalid("a line is no JSON object")  # Arrow takes null for one, or crashes
            table = pyarrow.json.read_json(BytesIO(data), *json_options(self._schema, len(data) + 1))
        if table.num_rows != len(some):
            raise pa.ArrowInvalid(f"{len(some)} lines have {table.num_rows} rows")
        (batch,) = table.combine_chunks().to_batches()
        return conform(batch, self._schema, f"the file {self._path!r}")

    def _bad(self, some: Sequence[Record]) -> Callable[[int, Exception], None]:
        def bad(number: int, error: Exception) -> None:
            record = some[number]
            text = record.data.decode(errors="backslashreplace").rstrip("\r\n")
            number_found = _CSV_COLUMN.search(str(error))
            column = "" if number_found is None else f" column {self._names[int(number_found[1])]!r},"
            said = pa.ArrowInvalid(_INNER_PLACE.sub("", str(error)))
            problem = unreadable(self._path, self._format, said, f", line {record.line},{column}", for_line(text))
            self._bad_row(BadRow(problem, text, self._path, record.line))

        return bad


class ObjectLines:
    """A stream of JSON lines for Arrow, which takes a line with `null` for an object, or crashes: it is refused here.

    Other values than objects Arrow refuses itself.
    """

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self._tail = b"\n"

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(None if size < 0 else size)
        if _NULL_LINE.search(self._tail + data) is not None:
            raise pa.ArrowInvalid("a line is null, and no JSON object")
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        return data

    def close(self) -> None:
        """The stream belongs to whoever opened it."""


def unreadable(path: str, format: str, error: Exception, place: str = "", shown: str = "") -> UserCodeError:
    """The error about a file, or a place in it, that does not have the content it should."""
    problem = UserCodeError(
        f"the file {path!r}{place} cannot be read as {format}: {explanation(error)}; check the file{shown}"
    )
    # An OSError in the chain would count as a failure of the environment, which is tried again for ever.
    problem.__cause__ = None if isinstance(error, OSError) else error
    problem.__suppress_context__ = True
    return problem


def is_damage(error: OSError) -> bool:
    """Whether the content of a file is at fault, not the storage: Arrow's errors have no number."""
    return type(error) is OSError and error.errno is None


def csv_options(schema: pa.Schema | None, block_bytes: int, names: list[str] | None = None) -> tuple[Any, Any, Any]:
    """Options of Arrow's CSV readers. Columns not in `schema` are dropped; without `names` they are in the file."""
    return (
        pyarrow.csv.ReadOptions(use_threads=False, block_size=block_bytes, column_names=names),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            column_types=schema,
            include_columns=None if schema is None else schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def json_options(schema: pa.Schema | None, block_bytes: int) -> tuple[Any, Any]:
    """Options of Arrow's JSON readers. Columns not in `schema` are dropped."""
    return (
        pyarrow.json.ReadOptions(use_threads=False, block_size=block_bytes),
        pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )

"""State files, version 1 of the format: Parquet that any Parquet reader can open.

One file holds one state of one subtask. `docs/state-format.md` describes the format for readers without Snapline;
`state_info` has the columns of each kind of state. A new or changed column or field needs a new version.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta, Struct

from snapline.errors import DamagedError, EngineError, StorageError
from snapline.protocol.keygroups import MAX_PARALLELISM_LIMIT, KeyGroupRange
from snapline.protocol.snapshot import StoredObject
from snapline.state import parquet_types
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding, column_names
from snapline.storage.snapshot_metadata import newer
from snapline.storage.snapshot_writer import SnapshotWriter

FORMAT_VERSION = 1
"""The version that `write` writes, and the newest that `read` reads. All versions from 1 on stay readable."""

FOOTER_KEY = b"snapline.state"
"""Key of the JSON in the Parquet footer that describes the file."""

ROW_GROUP_ROWS = 64 << 10
ROW_GROUP_BYTES = 64 << 20
"""A row group holds as many whole key groups as fit into both limits, but at least one."""

_MAX_ROW_GROUP_ROWS = 64 << 20
_FOOTER_BYTES = 1 << 20
_SAMPLE_ROWS = 1024
"""The size of a row is the average of the first ones."""

_FEW_ROWS = 8192
"""Files with fewer rows are not worth threads of Arrow's."""

_ZSTD_LEVEL = 1

# Dictionaries shrink long runs of few values to almost nothing; for other columns they are far too expensive.
_RUNS = ("key_group", "domain")


@dataclass(frozen=True, slots=True)
class StateFile:
    """What the footer of a state file says."""

    info: StateInfo
    schema: pa.Schema
    rows: int


class _Footer(Struct, forbid_unknown_fields=True):
    """The JSON in the footer. `key_groups` has the first and last of each row group; None for operator state.

    `ipc` has the schema, as an Arrow IPC message in base64, of each column whose type Parquet cannot hold.
    """

    version: int
    uid: str
    state: str
    kind: StateKind
    encoding: ValueEncoding
    max_parallelism: Annotated[int, Meta(ge=1, le=MAX_PARALLELISM_LIMIT)] | None
    ttl_ms: Annotated[int, Meta(ge=0)] | None
    key_groups: list[tuple[int, int]] | None
    ipc: dict[str, bytes]


class _Preamble(Struct):
    """The part of the footer that all versions have."""

    version: Annotated[int, Meta(ge=1)]


_footer_decoder = msgspec.json.Decoder(_Footer)
_preamble_decoder = msgspec.json.Decoder(_Preamble)


class StateRows(Protocol):
    """Rows to be written, ascending by key group, that need not be in memory all at once."""

    @property
    def num_rows(self) -> int: ...

    def key_groups(self) -> npt.NDArray[np.int32]:
        """The key group of every row."""
        ...

    def slice(self, start: int, length: int) -> pa.Table:
        """Some of the rows, with all columns."""
        ...


def write(
    info: StateInfo, rows: pa.Table | StateRows, *, zstd: bool, check: Callable[[], None] | None = None
) -> pa.Buffer:
    """Make the Parquet file of one state.

    `rows` have the columns of the kind, in any order: `namespace` only if the state has namespaces, `last_update_ms` if
    and only if `info` has a time to live. Rows of keyed state ascend by key group. Raises `EngineError` otherwise.
    `check` is called before each row group and may raise to stop.
    """
    sample = rows.slice(0, _SAMPLE_ROWS)
    names = column_names(info, sample.schema)
    row_bytes = sample.nbytes // max(sample.num_rows, 1)
    spans, index = _row_groups(info, rows, row_bytes)
    stored, ipc = _storable(sample.select(names))
    footer = _Footer(
        FORMAT_VERSION, info.uid, info.state, info.kind, info.encoding, info.max_parallelism, info.ttl_ms, index, ipc
    )
    schema = stored.schema.with_metadata({FOOTER_KEY: msgspec.json.encode(footer)})

    def parts() -> Iterator[pa.Table]:
        for part in _one_ahead(lambda span: _storable(rows.slice(span[0], span[1] - span[0]).select(names))[0], spans):
            if check is not None:
                check()
            yield part

    return _parquet(schema, parts, rows.num_rows * row_bytes, zstd=zstd)


def store(name: str, info: StateInfo, rows: pa.Table | StateRows, target: SnapshotWriter) -> StoredObject:
    data = write(info, rows, zstd=target.options.zstd, check=target.check)
    return target.write(name, memoryview(data))


def _parquet(
    schema: pa.Schema, parts: Callable[[], Iterator[pa.Table]], expected_bytes: int, *, zstd: bool
) -> pa.Buffer:
    """Make a Parquet file with a row group for each part, in a buffer of the expected size.

    A growing buffer would cost more than the writing. If the estimate was too low, everything is written again.
    """
    room = pa.allocate_buffer(expected_bytes + expected_bytes // 4 + _FOOTER_BYTES)
    sink = pa.FixedSizeBufferWriter(room)
    try:
        _write_parts(sink, schema, parts(), zstd=zstd)
        return room.slice(0, sink.tell())
    except OSError as error:
        if "out of bounds" not in str(error):
            raise
    growing = pa.BufferOutputStream()
    _write_parts(growing, schema, parts(), zstd=zstd)
    return growing.getvalue()


def _write_parts(sink: pa.NativeFile, schema: pa.Schema, parts: Iterator[pa.Table], *, zstd: bool) -> None:
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd" if zstd else "none",
        compression_level=_ZSTD_LEVEL if zstd else None,
        use_dictionary=[field.name for field in schema if field.name in _RUNS or pa.types.is_dictionary(field.type)],
        write_statistics=["key_group"],
        write_page_checksum=True,
    ) as writer:
        for part in parts:
            writer.write_table(part, row_group_size=part.num_rows)


def _one_ahead(make: Callable[[tuple[int, int]], pa.Table], spans: Sequence[tuple[int, int]]) -> Iterator[pa.Table]:
    """What `make` returns for each span; the next one is made while the caller uses the last."""
    if len(spans) < 2:
        yield from map(make, spans)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="snapline-rows") as executor:
        pending = executor.submit(make, spans[0])
        for span in spans[1:]:
            following = executor.submit(make, span)
            yield pending.result()
            pending = following
        yield pending.result()


def read(file: BinaryIO, key_groups: KeyGroupRange | None = None) -> tuple[StateInfo, pa.Table]:
    """Read a state file, or only some key groups of it; reads only the row groups needed.

    Columns have the types they were written with. Raises `DamagedError` if it is not a complete, unaltered state file
    or has a newer version.
    """
    reader = _Reader(file)
    return reader.info, reader.table(reader.needed(key_groups), key_groups)


def iterate(file: BinaryIO, key_groups: KeyGroupRange | None = None) -> Iterator[pa.Table]:
    """Like `read`, one row group at a time: each table has all rows of one or more key groups; none is empty."""
    reader = _Reader(file)
    for row_group in reader.needed(key_groups):
        table = reader.table([row_group], key_groups)
        if table.num_rows:
            yield table


def describe(file: BinaryIO) -> StateFile:
    """Read the footer of a state file. Raises as `read` does."""
    reader = _Reader(file)
    return StateFile(reader.info, reader.schema, reader.rows)


class _Reader:
    """An open state file. The caller closes the file."""

    def __init__(self, file: BinaryIO) -> None:
        source = pa.BufferReader(file.getvalue()) if isinstance(file, io.BytesIO) else file
        with _damage():
            self._file = pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)
            metadata = self._file.metadata
            self._footer = _footer(metadata.metadata or {})
            it = self._footer
            self.info = StateInfo(it.uid, it.state, it.kind, it.max_parallelism, it.encoding, it.ttl_ms)
            self.rows: int = metadata.num_rows
            self.schema = self._schema(metadata.metadata)
            if sorted(self.schema.names) != sorted(column_names(self.info, self.schema)):
                raise EngineError("its columns do not belong to its kind of state")
        if it.key_groups is not None and len(it.key_groups) != metadata.num_row_groups:
            raise DamagedError(f"the state file is damaged: its index does not fit its {metadata.num_row_groups} parts")
        if sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)) != self.rows:
            raise DamagedError(f"the state file is damaged: its parts do not have {self.rows} rows in all")

    def needed(self, key_groups: KeyGroupRange | None) -> list[int]:
        """The row groups that may have rows of these key groups. None selects all."""
        index = self._footer.key_groups
        if key_groups is None:
            return list(range(self._file.num_row_groups))
        if index is None:
            raise EngineError(f"state {self.info.state!r} is operator state: it has no key groups to select")
        return [
            number for number, (first, last) in enumerate(index) if first <= key_groups.end and key_groups.start <= last
        ]

    def table(self, row_groups: Sequence[int], key_groups: KeyGroupRange | None) -> pa.Table:
        with _damage():
            table = self._file.read_row_groups(row_groups, use_threads=self.rows > _FEW_ROWS)
            present = self._checked_key_groups(table, row_groups)
            if key_groups is not None:
                start, end = np.searchsorted(present, [key_groups.start, key_groups.end + 1])
                table = table.slice(start, end - start)
            return pa.Table.from_arrays(
                [
                    parquet_types.from_ipc(column, field.type)
                    if field.name in self._footer.ipc
                    else parquet_types.cast(column, field)
                    for column, field in zip(table.columns, self.schema, strict=True)
                ],
                schema=self.schema,
            )

    def _checked_key_groups(self, table: pa.Table, row_groups: Sequence[int]) -> npt.NDArray[np.int32]:
        """The key group of each row, checked against the index, which decides what is read."""
        index = self._footer.key_groups
        if index is None:
            return np.zeros(0, dtype=np.int32)
        present: npt.NDArray[np.int32] = table["key_group"].to_numpy()
        start = 0
        for number in row_groups:
            end = start + self._file.metadata.row_group(number).num_rows
            if index[number] != (present[start], present[end - 1]):
                raise DamagedError(f"the state file is damaged: its index does not fit its part {number}")
            start = end
        return present

    def _schema(self, metadata: dict[bytes, bytes]) -> pa.Schema:
        """The schema as it was written; the Parquet schema alone loses details."""
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(metadata[b"ARROW:schema"])))
        for name, original in self._footer.ipc.items():
            schema = schema.set(schema.get_field_index(name), pa.ipc.read_schema(pa.py_buffer(original)).field(0))
        return schema.remove_metadata()


def _footer(metadata: dict[bytes, bytes]) -> _Footer:
    text = metadata.get(FOOTER_KEY)
    if text is None:
        raise DamagedError("the file is Parquet, but not a state file of Snapline")
    version = _preamble_decoder.decode(text).version
    if version > FORMAT_VERSION:
        raise DamagedError(newer("the state file", version, FORMAT_VERSION))
    return _footer_decoder.decode(text)


@contextmanager
def _damage() -> Iterator[None]:
    """Turn all errors of reading a damaged file into `DamagedError`."""
    try:
        yield
    except OSError as error:
        # Arrow reports damage as an OSError without errno; one with errno comes from the machine.
        if error.errno is not None:
            raise StorageError(f"the state file cannot be read: {error}") from error
        raise DamagedError(f"the state file is damaged: {error}") from error
    except (pa.ArrowException, msgspec.DecodeError, EngineError, binascii.Error, KeyError, ValueError) as error:
        raise DamagedError(f"the state file is damaged: {error}") from error


def _row_groups(
    info: StateInfo, table: pa.Table | StateRows, row_bytes: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]] | None]:
    """The start and end of each row group, and for keyed state its first and last key group."""
    rows = table.num_rows
    target = min(ROW_GROUP_ROWS, max(1, ROW_GROUP_BYTES // max(row_bytes, 1)))
    if not info.kind.is_keyed:
        return [(start, min(start + target, rows)) for start in range(0, rows, target)], None
    key_groups = _key_groups(info, table)
    steps = np.diff(key_groups)
    if rows and (steps.min(initial=0) < 0 or key_groups[0] < 0 or key_groups[-1] >= _limit(info)):
        raise EngineError(f"key groups of state {info.state!r} do not ascend from 0 to {_limit(info) - 1}")
    spans = _cut(np.append(np.flatnonzero(steps) + 1, rows), target, _MAX_ROW_GROUP_ROWS)
    return spans, [(int(key_groups[start]), int(key_groups[end - 1])) for start, end in spans]


def _key_groups(info: StateInfo, table: pa.Table | StateRows) -> npt.NDArray[np.int32]:
    if not isinstance(table, pa.Table):
        return table.key_groups()
    if table["key_group"].null_count:
        raise EngineError(f"state {info.state!r} has rows without a key group")
    key_groups: npt.NDArray[np.int32] = table["key_group"].to_numpy()
    return key_groups


def _limit(info: StateInfo) -> int:
    return MAX_PARALLELISM_LIMIT if info.max_parallelism is None else info.max_parallelism


def _cut(ends: Any, target: int, limit: int) -> list[tuple[int, int]]:
    """The start and end of row groups. `ends` are those of the key groups, ascending; the last is the number of rows.

    A row group has as many whole key groups as fit into `target` rows, but at least one. Only a key group of more than
    `limit` rows is cut.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    while start < ends[-1]:
        fitting, behind = np.searchsorted(ends, [start + target, start], side="right")
        end = min(int(ends[max(fitting - 1, behind)]), start + limit)
        spans.append((start, end))
        start = end
    return spans


def _storable(table: pa.Table) -> tuple[pa.Table, dict[str, bytes]]:
    """The table as Parquet can hold it, and the schemas of the columns that became bytes."""
    ipc: dict[str, bytes] = {}
    for number, field in enumerate(table.schema):
        if not parquet_types.fits_parquet(field.type):
            ipc[field.name] = pa.schema([field]).serialize().to_pybytes()
            table = table.set_column(number, field.name, parquet_types.to_ipc(table.column(number)))
    return table, ipc

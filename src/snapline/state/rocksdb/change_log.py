"""Files of changes: what a checkpoint adds to the database's files that an earlier one has saved.

Such a file has an Arrow stream for each state that changed, one after the other; the number of the state is in the
metadata of the schema. Its columns are those of state files, without the key group. A null value deletes the entry.
Writing it costs a fraction of writing the same entries to the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from snapline.errors import DamagedError
from snapline.state.arrays import Ints
from snapline.state.value_tables import FrozenTable

_STATE = b"state"
_BATCH_ROWS = 256 << 10


def write_changes(path: Path, tables: Sequence[tuple[int, pa.DataType, FrozenTable]]) -> int:
    """Write the dirty entries of tables, each with the number of its state and the type of its values.

    Returns their number. Without any, there is no file.
    """
    dirty = [(state, kind, table, np.flatnonzero(table.dirty)) for state, kind, table in tables]
    count = sum(len(slots) for _, _, _, slots in dirty)
    if count:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.OSFile(str(path), "wb") as file:
            for state, kind, table, slots in dirty:
                if len(slots):
                    _write_stream(file, options, state, kind, table, slots)
    return count


def _write_stream(
    file: pa.NativeFile, options: pa.ipc.IpcWriteOptions, state: int, kind: pa.DataType, table: FrozenTable, slots: Ints
) -> None:
    fields = [pa.field(name, part) for name, part in (*table.layout.types(), ("value", kind))]
    if table.updated is not None:
        fields.append(pa.field("last_update_ms", pa.int64()))
    schema = pa.schema(fields, {_STATE: str(state).encode()})
    with pa.ipc.new_stream(file, schema, options=options) as stream:
        for start in range(0, len(slots), _BATCH_ROWS):
            part = slots[start : start + _BATCH_ROWS]
            columns = table.layout.arrays([column.take(part) for column in table.keys])
            columns["value"] = _values(table, part)
            if table.updated is not None:
                columns["last_update_ms"] = pa.array(table.updated[part])
            stream.write_batch(pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema))


def _values(table: FrozenTable, slots: Ints) -> pa.Array:
    """The values at slots, null for those that are not present."""
    present = table.present[slots]
    values = table.values.encode(slots[present])
    if present.all():
        return values
    return values.take(pa.array(np.cumsum(present) - 1, mask=~present))


def read_changes(path: Path, name: str) -> Iterator[tuple[int, pa.Table]]:
    """The number of a state, and some of its changes, in the order in which they were written.

    Raises `DamagedError`, which calls the file by its `name`.
    """
    try:
        with pa.OSFile(str(path), "rb") as file:
            size = file.size()
            while file.tell() < size:
                with pa.ipc.open_stream(file) as stream:
                    state = int(stream.schema.metadata[_STATE])
                    for batch in stream:
                        yield state, pa.Table.from_batches([batch]).replace_schema_metadata(None)
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{name} is damaged: it is no file of changes: {error}") from error

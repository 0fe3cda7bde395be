"""Writing entries to the database: few through its memory, many as a file of tables that the database takes over."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from snapline.errors import StorageError
from snapline.state.arrays import Bools
from snapline.state.key_index import FrozenBytesKeys, FrozenFixedKeys, FrozenKeys
from snapline.state.rocksdb import row_codec
from snapline.state.rocksdb.rocksdb_files import StateEntry, database_options, entries_between
from snapline.state.rocksdb.row_codec import ValueCodec
from snapline.state.stable_hash import BytesKeys, EncodedKeys, key_groups
from snapline.state.value_tables import FrozenTable

if TYPE_CHECKING:
    from rocksdict import Rdict

BATCH_ENTRIES = 64 << 10
FILE_ENTRIES = 512 << 10
"""From this many entries on they are written as a file, at half the cost. Many small files would slow down reads."""

Entries: TypeAlias = tuple[Sequence[bytes], Sequence[bytes | None]]
"""Keys, all different, and their values; None deletes."""


def flush_table(
    database: Rdict, scratch: Path, state: int, codec: ValueCodec, changes: FrozenTable, chosen: Bools, groups: int
) -> int:
    """Write the `chosen` entries of a table as those of the state with a number. Returns how many there were.

    `groups` is the number of key groups of the job; `scratch` a file of the caller's that does not exist.
    """
    count = int(np.count_nonzero(chosen))
    if count:
        write_entries(database, scratch, count, encoded(state, codec, changes, chosen, groups))
    return count


def encoded(state: int, codec: ValueCodec, changes: FrozenTable, chosen: Bools, groups: int) -> Iterator[Entries]:
    """The chosen entries of a table as they are stored, ascending by key, in batches."""
    slots = np.flatnonzero(chosen)
    all_groups = key_groups(changes.key_hashes.take(slots), groups)
    order = row_codec.in_order(all_groups, [column.take(slots) for column in changes.keys])
    for start in range(0, len(slots), BATCH_ENTRIES):
        places = order[start : start + BATCH_ENTRIES]
        part = slots[places]
        keys = row_codec.encode_keys(
            row_codec.heads(state, all_groups[places]), [column.take(part) for column in changes.keys]
        )
        present = changes.present[part]
        written = part[present]
        values = codec.encode(changes.values.encode(written))
        if changes.updated is not None:
            values = row_codec.stamp(values, changes.updated[written])
        if present.all():
            yield keys, values
        else:
            remaining = iter(values)
            yield keys, [next(remaining) if is_present else None for is_present in present.tolist()]


def write_rows(database: Rdict, scratch: Path, entry: StateEntry, table: pa.Table) -> None:
    """Write changes of a state, as `change_log` reads them: no two of them have the same key."""
    if not table.num_rows:
        return
    shape = entry.own_shape()
    rows = shape.layout.rows(table)
    kinds = [kind for _, types in shape.layout.parts() for kind in types.kinds]
    columns = [_frozen(kind, column) for kind, column in zip(kinds, rows.encoded, strict=True)]
    groups = key_groups(rows.key_hashes, entry.info.max_parallelism or 1)
    order = row_codec.in_order(groups, columns)
    keys = row_codec.encode_keys(row_codec.heads(entry.id, groups[order]), [column.take(order) for column in columns])
    table = table.take(pa.array(order)).combine_chunks()
    column = table.column("value").combine_chunks()
    present = column.is_valid().to_numpy(zero_copy_only=False)
    stored = ValueCodec(shape.values.stored).encode(column.drop_null())
    if entry.info.ttl_ms is not None:
        stored = row_codec.stamp(stored, table.column("last_update_ms").to_numpy()[present])
    remaining = iter(stored)
    values = [next(remaining) if is_present else None for is_present in present.tolist()]
    write_entries(database, scratch, len(keys), iter([(keys, values)]))


def copy_entries(source: Rdict, start: bytes, end: bytes, database: Rdict, state: int, scratch: Path) -> None:
    """Copy the entries between two keys; in `database` they belong to the state with a number."""
    batches = _renumbered(source, start, end, state.to_bytes(2, "big"))
    first = next(batches, None)
    if first is not None:
        count = FILE_ENTRIES if len(first[0]) == BATCH_ENTRIES else 0
        write_entries(database, scratch, count, itertools.chain([first], batches))


def _renumbered(source: Rdict, start: bytes, end: bytes, number: bytes) -> Iterator[Entries]:
    entries = entries_between(source, start, end)
    while batch := list(itertools.islice(entries, BATCH_ENTRIES)):
        keys, values = zip(*batch, strict=True)
        yield (keys if start[:2] == number else [number + key[2:] for key in keys]), values


def _frozen(kind: pa.DataType, column: EncodedKeys) -> FrozenKeys:
    return FrozenBytesKeys(kind, column.array) if isinstance(column, BytesKeys) else FrozenFixedKeys(kind, column.words)


def write_entries(database: Rdict, scratch: Path, count: int, batches: Iterator[Entries]) -> None:
    """Write about `count` entries, which ascend by key. They replace what the database has under these keys."""
    if count < FILE_ENTRIES:
        _write_batches(database, batches)
    else:
        _write_file(database, scratch, batches)


def _write_batches(database: Rdict, batches: Iterator[Entries]) -> None:
    from rocksdict import WriteBatch

    for keys, values in batches:
        batch = WriteBatch(raw_mode=True)
        for key, value in zip(keys, values, strict=True):
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        database.write(batch)


def _write_file(database: Rdict, scratch: Path, batches: Iterator[Entries]) -> None:
    from rocksdict import IngestExternalFileOptions, SstFileWriter

    writer = SstFileWriter(database_options())
    try:
        writer.open(str(scratch))
        for keys, values in batches:
            for key, value in zip(keys, values, strict=True):
                if value is None:
                    del writer[key]
                else:
                    writer[key] = value
        writer.finish()
        moved = IngestExternalFileOptions()
        moved.set_move_files(True)
        database.ingest_external_file([str(scratch)], moved)
    except Exception as error:
        raise StorageError(f"state could not be written to {scratch}: {error}") from error
    finally:
        scratch.unlink(missing_ok=True)

"""The files of a RocksDB database in a snapshot: their listing, and reading states from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from snapline.errors import ConfigurationError, DamagedError, SnaplineError, StorageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import StoredObject
from snapline.state.batch_keys import KeyTypes
from snapline.state.rocksdb.row_codec import HEAD_BYTES, ValueCodec, decode_keys, head, unstamp
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_shape import Shape, stored_shape
from snapline.storage.snapshot_metadata import newer
from snapline.storage.snapshot_reader import SnapshotReader

if TYPE_CHECKING:
    from rocksdict import Cache, Options, Rdict, WriteBufferManager

NATIVE = "rocksdb"
"""How snapshots mark this backend's own files."""

LISTING_VERSION = 2
"""Version 1 has no files of changes. A listing without any is written as such, for older readers."""

BLOCK_CACHE_BYTES = 64 << 20
FILE_ROWS = 1 << 20
"""A canonical savepoint begins a new file after this many rows of a state."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A state in a database: `id` is the number its keys begin with, `schema` that of its state file."""

    id: int
    info: StateInfo
    schema: pa.Schema

    def shape(self, key: KeyTypes) -> Shape:
        """The shape of the state. Raises `RestoreError` if it has other keys."""
        return stored_shape(key, self.info, self.schema)

    def own_shape(self) -> Shape:
        """The shape of the state, whatever its keys are."""
        return self.shape(KeyTypes(self.schema.field("key").type))


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a saved database. `sequence` is greater than the position of every list element."""

    states: Sequence[StateEntry]
    sequence: int
    files: Sequence[str] = ()
    changes: Sequence[str] = ()
    """Those of `files` that hold changes to the database, in the order in which they were made."""


class _WireState(msgspec.Struct):
    id: int
    uid: str
    state: str
    kind: StateKind
    encoding: ValueEncoding
    max_parallelism: int
    ttl_ms: int | None
    schema: bytes


class _WireListing(msgspec.Struct, omit_defaults=True):
    version: int
    sequence: int
    files: list[str]
    states: list[_WireState]
    changes: list[str] = []


def encode_listing(listing: Listing, files: list[str]) -> bytes:
    """`files` are those of this snapshot; `listing.changes` must be among them."""
    states = [
        _WireState(id=entry.id, schema=entry.schema.serialize().to_pybytes(), **asdict(entry.info))
        for entry in listing.states
    ]
    version = LISTING_VERSION if listing.changes else 1
    return msgspec.json.encode(_WireListing(version, listing.sequence, files, states, list(listing.changes)))


def decode_listing(data: bytes, path: str) -> Listing:
    """The inverse of `encode_listing`. Raises `DamagedError`."""
    try:
        wire = msgspec.json.decode(data, type=_WireListing)
    except msgspec.MsgspecError as error:
        raise DamagedError(f"{path} does not list the files of a RocksDB database: {error}") from error
    if wire.version > LISTING_VERSION:
        raise DamagedError(newer(path, wire.version, LISTING_VERSION))
    if any(not name.isprintable() or "/" in name or name in ("", ".", "..") for name in wire.files):
        raise DamagedError(f"{path} lists a file with an impossible name")
    if not set(wire.changes) <= set(wire.files):
        raise DamagedError(f"{path} names changes that are not among its files")
    try:
        entries = [
            StateEntry(
                state.id,
                StateInfo(state.uid, state.state, state.kind, state.max_parallelism, state.encoding, state.ttl_ms),
                pa.ipc.read_schema(pa.py_buffer(state.schema)),
            )
            for state in wire.states
        ]
        for entry in entries:
            entry.own_shape()
    except (pa.ArrowException, OSError, KeyError, SnaplineError) as error:
        raise DamagedError(f"{path} is damaged: it describes an impossible state: {error}") from error
    return Listing(entries, wire.sequence, wire.files, tuple(wire.changes))


def load_rocksdict() -> None:
    """Raises `ConfigurationError` if the package is missing or does not load."""
    try:
        import rocksdict  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "state_backend='rocksdb' needs the package rocksdict, on the driver and where the tasks run: "
            f"pip install 'snapline[rocksdb]' ({error})"
        ) from error


def database_options(cache: Cache | None = None, buffers: WriteBufferManager | None = None) -> Options:
    """The options of all databases. Reads are of sorted single keys, writes of sorted files; see `docs/state.md`.

    Blocks, indexes and filters share `cache`; `buffers` limits unflushed writes.
    """
    from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options

    options = Options(raw_mode=True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_open_files(-1)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_keep_log_file_num(1)
    if buffers is not None:
        options.set_write_buffer_manager(buffers)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(Cache(BLOCK_CACHE_BYTES) if cache is None else cache)
    blocks.set_bloom_filter(10, False)
    if cache is not None:
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options.set_block_based_table_factory(blocks)
    return options


def open_database(directory: Path, *, read_only: bool = False, options: Options | None = None) -> Rdict:
    """Open a database, or create an empty one."""
    load_rocksdict()
    from rocksdict import AccessType, Rdict, WriteOptions

    chosen = database_options() if options is None else options
    chosen.create_if_missing(not read_only)
    try:
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        database = Rdict(str(directory), chosen, access_type=access)
    except Exception as error:
        raise StorageError(f"the RocksDB database in {directory} cannot be opened: {error}") from error
    if not read_only:
        # After a crash state comes from the last checkpoint, so no log is needed.
        write = WriteOptions()
        write.disable_wal = True  # type: ignore[method-assign, assignment]
        database.set_write_options(write)
    return database


def fetch_files(directory: Path, names: Sequence[str], files: Sequence[StoredObject], source: SnapshotReader) -> None:
    """Download the files of a saved database into a new directory."""
    if len(names) != len(files):
        raise DamagedError(f"a RocksDB database of {len(names)} files was saved, but the snapshot has {len(files)}")
    directory.mkdir(parents=True)
    for name, item in zip(names, files, strict=True):
        source.fetch(item, directory / name)


def entries_between(database: Rdict, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The entries from key `start` up to, but not including, `end`."""
    for key, value in database.items(from_key=start):
        assert isinstance(key, bytes)
        if key >= end:
            return
        yield key, value


def read_state(
    database: Rdict,
    entry: StateEntry,
    groups: KeyGroupRange,
    *,
    now_ms: int | None = None,
    check: Callable[[], None] | None = None,
) -> Iterator[pa.Table]:
    """The entries of a state in the open format, ordered by key group, as tables of limited size.

    Entries that have expired at `now_ms` are left out; None keeps all. `check` may raise to stop.
    """
    shape = entry.own_shape()
    keys: list[bytes] = []
    values: list[bytes] = []
    for key, value in entries_between(database, head(entry.id, groups.start), head(entry.id, groups.end + 1)):
        keys.append(key)
        values.append(value)
        if len(keys) >= FILE_ROWS:
            if check is not None:
                check()
            yield _table(entry.info, shape, keys, values, now_ms)
            keys, values = [], []
    if keys:
        yield _table(entry.info, shape, keys, values, now_ms)


def _table(info: StateInfo, shape: Shape, keys: list[bytes], values: list[bytes], now_ms: int | None) -> pa.Table:
    groups = np.frombuffer(b"".join(key[2:HEAD_BYTES] for key in keys), dtype=">u2").astype(np.int32)
    columns = {"key_group": pa.array(groups)}
    kinds = [kind for _, types in shape.layout.parts() for kind in types.kinds]
    arrays = iter(decode_keys(keys, HEAD_BYTES, kinds))
    for name, types in shape.layout.parts():
        columns[name] = types.together([next(arrays) for _ in types.kinds])
    codec = ValueCodec(shape.values.stored)
    if info.ttl_ms is None:
        return pa.table(columns | {"value": codec.decode(values)})
    values, times = unstamp(values)
    table = pa.table(columns | {"value": codec.decode(values), "last_update_ms": pa.array(times)})
    return table if now_ms is None else table.filter(pa.array(times > now_ms - info.ttl_ms))

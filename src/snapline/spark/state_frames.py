"""The states of a checkpoint or savepoint as Spark DataFrames, with the columns of Spark's state data source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.config import S3
from snapline.config import Path as AnyPath
from snapline.errors import ConfigurationError
from snapline.protocol.snapshot import Snapshot
from snapline.state.inspection.job_directory import inspect_path
from snapline.state.inspection.state_rows import select_state, state_rows
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.storage.objects.file_objects import FileObjects
from snapline.storage.objects.object_store import ObjectStore
from snapline.storage.snapshot_reader import SnapshotReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VALUES = {StateKind.VALUE: "value", StateKind.LIST: "list_element", StateKind.MAP: "user_map_value"}
_COLLECTIONS = {StateKind.LIST: "list_value", StateKind.MAP: "map_value"}


def read_state(
    spark: SparkSession,
    path: AnyPath,
    state: str,
    *,
    key_columns: Sequence[str] = ("key",),
    map_key_columns: Sequence[str] = ("key",),
    flatten: bool = True,
    storage_options: S3 | None = None,
) -> DataFrame:
    """Returns the rows of a state, named UID/NAME, as the format `statestore` of Spark would.

    path: a checkpoint or savepoint, or the directory of a job, whose newest checkpoint is read.
    key_columns, map_key_columns: names of the columns of the key, and of the keys of a map; a single one has no name in
        a snapshot.
    flatten: False gives one row per key, with its list or map.

    Columns: `key`, a struct; for a value state `value`, for a list `list_element` or `list_value`, for a map
    `user_map_key` and `user_map_value`, or `map_value`; `partition_id`, the subtask. If the state has a time to live,
    values are structs of `value` and `ttlExpirationMs`. Everything is read on the driver. Raises `ConfigurationError`
    if there is no such state, or its values are pickles.
    """
    objects = FileObjects(options=storage_options)
    snapshot, reader = newest_snapshot(objects, os.fspath(path)), SnapshotReader(objects)
    operator, name = select_state(snapshot, reader, state)
    parts = list(state_rows(operator, name, reader))
    if not parts:
        raise ConfigurationError(f"read_state({state!r}): the snapshot has no rows of it, and so no types either")
    info = parts[0].info
    if info.kind not in _VALUES or info.encoding is not ValueEncoding.ARROW:
        raise ConfigurationError(
            f"read_state({state!r}): it is a {info.kind.value} state with {info.encoding.value} values; only value, "
            "list and map states with a declared type can be read"
        )
    tables = [_table(part.table, part.subtask, info, key_columns, map_key_columns) for part in parts]
    table = pa.concat_tables(tables).combine_chunks()
    if not flatten and info.kind in _COLLECTIONS:
        table = _collected(table, info.kind)
    return spark.createDataFrame(table)


def newest_snapshot(objects: ObjectStore, path: str) -> Snapshot:
    """The snapshot at `path`, or the newest one of the job there. Raises `ConfigurationError` if it has none."""
    found = inspect_path(objects, path if "://" in path else os.path.abspath(path))
    if isinstance(found, Snapshot):
        return found
    if found.restore_from is None:
        raise ConfigurationError(f"read_state: {path} has no checkpoint to read: {found.note}")
    newest = inspect_path(objects, found.restore_from)
    assert isinstance(newest, Snapshot)
    return newest


def _table(
    stored: pa.Table, subtask: int, info: StateInfo, key_columns: Sequence[str], map_key_columns: Sequence[str]
) -> pa.Table:
    """Returns stored rows with Spark's columns, elements of lists in their order."""
    stored = stored.combine_chunks()
    if info.kind is StateKind.LIST:
        stored = stored.take(pc.sort_indices(stored, sort_keys=[("position", "ascending")]))
    value = _only(stored.column("value"))
    if info.ttl_ms is not None:
        expires = pc.add(_only(stored.column("last_update_ms")), info.ttl_ms)
        value = pa.StructArray.from_arrays([value, expires], names=["value", "ttlExpirationMs"])
    columns: dict[str, Any] = {"key": _struct(stored.column("key"), key_columns)}
    if info.kind is StateKind.MAP:
        columns["user_map_key"] = _struct(stored.column("map_key"), map_key_columns)
    columns[_VALUES[info.kind]] = value
    columns["partition_id"] = pa.repeat(pa.scalar(subtask, pa.int32()), len(stored))
    return pa.table(columns)


def _only(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _struct(column: pa.ChunkedArray, names: Sequence[str]) -> pa.StructArray:
    array = _only(column)
    if pa.types.is_struct(array.type):
        return array
    if len(names) != 1:
        raise ConfigurationError(f"read_state: the key has one column, and {list(names)} names {len(names)}")
    return pa.StructArray.from_arrays([array], names=list(names))


def _collected(table: pa.Table, kind: StateKind) -> pa.Table:
    """Returns one row per key, with a list or a map of what the key has."""
    keys = table.column("key").to_pylist()
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(repr(key), len(numbers)) for key in keys])
    order = np.argsort(codes, kind="stable")
    rows = table.take(pa.array(order)).combine_chunks()
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    offsets = pa.array([*starts.tolist(), len(order)], pa.int32())
    values = _only(rows.column(_VALUES[kind]))
    if kind is StateKind.LIST:
        held = pa.ListArray.from_arrays(offsets, values)
    else:
        held = pa.MapArray.from_arrays(offsets, _only(rows.column("user_map_key")), values)
    firsts = rows.take(pa.array(starts))
    return pa.table(
        {"key": firsts.column("key"), _COLLECTIONS[kind]: held, "partition_id": firsts.column("partition_id")}
    )

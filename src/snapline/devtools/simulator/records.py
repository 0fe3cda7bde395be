"""The records of a simulated job, and how their effects are told apart."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

from snapline.devtools.simulator.scenario import KEYS, MAX_PARALLELISM
from snapline.state.stable_hash import hash_columns, key_groups

EDGES_PER_VERTEX = 4
SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("time", pa.int64()), ("load", pa.binary())])
_LOADS = (b"", bytes(500), bytes(1200), bytes(1200))
"""Payloads: some fill a channel by themselves, so that data piles up."""


class SimRecord(NamedTuple):
    id: int
    key: int


def record_of(source_number: int, split: int, offset: int) -> SimRecord:
    """Returns the n-th record of a split, always the same."""
    record_id = (source_number * 8 + split) * 64 + offset
    return SimRecord(record_id, (record_id * 7919 + 13) % KEYS)


def batch_of(records: list[SimRecord], times: list[int]) -> pa.RecordBatch:
    columns: list[Any] = [[record.id for record in records], [record.key for record in records], times]
    columns.append([_LOADS[record.id % len(_LOADS)] for record in records])
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA
    )


def mark(record_id: int, edge_number: int) -> int:
    """Encodes a record and the input edge it came over as one number."""
    return record_id * EDGES_PER_VERTEX + edge_number


@cache
def key_group_of(key: int) -> int:
    groups = key_groups(hash_columns([pa.array([key], pa.int64())]), MAX_PARALLELISM)
    return int(groups[0])

"""Encoded checkpoints: a record that has not changed is encoded once, not for every view and viewer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.explanation import Explanation
from snapline.web.flink_checkpoints import checkpoint
from snapline.web.own_checkpoints import checkpoint_row

MAX_DETAILS_BYTES = 4 << 20
"""Details of checkpoints that are kept for one job."""

SPARE_ROWS = 100
"""How many more rows than the history has are kept until those that left it are dropped."""

_encode = msgspec.json.Encoder().encode


class RowCache:
    """Rows of lists, as long as their records are in the history. Its answers are JSON, to be put into others."""

    def __init__(self) -> None:
        self._flink: dict[int, tuple[CheckpointRecord, msgspec.Raw]] = {}
        self._own: dict[int, tuple[CheckpointRecord, Explanation | None, msgspec.Raw]] = {}

    def flink(self, records: Sequence[CheckpointRecord]) -> list[Any]:
        """Rows in Flink's shape."""
        known, rows = self._flink, []
        for record in records:
            entry = known.get(record.id)
            if entry is None or entry[0] is not record:
                entry = known[record.id] = (record, msgspec.Raw(_encode(checkpoint(record))))
            rows.append(entry[1])
        return rows

    def own(self, records: Sequence[CheckpointRecord], explanations: Mapping[int, Explanation]) -> list[Any]:
        """Rows in our own shape."""
        known, rows = self._own, []
        for record in records:
            entry, explanation = known.get(record.id), explanations.get(record.id)
            if entry is None or entry[0] is not record or entry[1] != explanation:
                encoded = msgspec.Raw(_encode(checkpoint_row(record, explanation)))
                entry = known[record.id] = (record, explanation, encoded)
            rows.append(entry[2])
        return rows

    def prune(self, history: Sequence[CheckpointRecord]) -> None:
        """Drop rows of records that have left the history."""
        most = len(history) + SPARE_ROWS
        if len(self._flink) > most or len(self._own) > most:
            kept = {record.id for record in history}
            self._flink = {id: entry for id, entry in self._flink.items() if id in kept}
            self._own = {id: entry for id, entry in self._own.items() if id in kept}


class DetailsCache:
    """Details of the checkpoints that were looked at last."""

    def __init__(self, max_bytes: int = MAX_DETAILS_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._known: OrderedDict[tuple[str, int], tuple[CheckpointRecord, object, bytes]] = OrderedDict()

    def get(self, name: str, record: CheckpointRecord, beside: object, make: Callable[[], Any]) -> bytes:
        """What `make` returns, encoded. It is made anew if the record, or what stands `beside` it, is another one."""
        key = (name, record.id)
        entry = self._known.get(key)
        if entry is not None and entry[0] is record and entry[1] == beside:
            self._known.move_to_end(key)
            return entry[2]
        encoded = _encode(make())
        if entry is not None:
            self._size_bytes -= len(entry[2])
        self._known[key] = (record, beside, encoded)
        self._known.move_to_end(key)
        self._size_bytes += len(encoded)
        while self._size_bytes > self._max_bytes and len(self._known) > 1:
            self._size_bytes -= len(self._known.popitem(last=False)[1][2])
        return encoded

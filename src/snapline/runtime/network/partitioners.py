"""Which rows of a batch go to which subtask."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import EngineError, UserCodeError
from snapline.runtime.wire.channel_items import ITEM_COST_BYTES, Item, ItemKind
from snapline.state.stable_hash import check_no_nulls, hash_columns, key_groups
from snapline.types import Partitioning

Split = list[tuple[int, pa.RecordBatch]]

REBALANCE_LIMIT_BYTES = 512 * 1024
"""A larger batch is sent in pieces."""


_IN_BOUNDS = pc.TakeOptions(boundscheck=False)
_FEW_TARGETS = 16
"""Up to this many, comparing with each target is faster than one bincount."""


class Partitioner(ABC):
    @abstractmethod
    def split(self, batch: pa.RecordBatch) -> Split:
        """The non-empty parts of a batch with their targets; rows of one target stay in order."""

    def split_items(self, batch: pa.RecordBatch) -> list[tuple[int, Item]]:
        """`split`, with the parts as items. Sizes are estimated, because measuring each part is slow."""
        parts = self.split(batch)
        if not parts:
            return []
        row_bytes = batch.nbytes / batch.num_rows
        return [
            (target, Item(ItemKind.DATA, part, int(row_bytes * part.num_rows) + ITEM_COST_BYTES))
            for target, part in parts
        ]

    def owned(self, batch: pa.RecordBatch, target: int) -> pa.RecordBatch:
        """The rows that belong to `target`, of a batch that was sent to several subtasks."""
        raise EngineError(f"{type(self).__name__} has no rows that are owned: {batch.num_rows} were sent to {target}")


class Hash(Partitioner):
    """By the key group of the row's key; errors name `operator` as the receiver."""

    def __init__(self, key_columns: Sequence[str], targets: int, max_parallelism: int, operator: str = "") -> None:
        self._key_columns = list(key_columns)
        self._operator = operator
        self._targets = targets
        self._max_parallelism = max_parallelism
        groups = np.arange(max_parallelism, dtype=np.int64)
        kind = np.uint8 if targets <= 256 else np.uint16
        self._target_of_group: npt.NDArray[np.unsignedinteger] = (groups * targets // max_parallelism).astype(kind)

    def split(self, batch: pa.RecordBatch) -> Split:
        if not batch.num_rows:
            return []
        # Checked even for one target: the receiver could not name the column in its error.
        check_no_nulls([batch.column(name) for name in self._key_columns], self._key_columns, self._operator, batch)
        if self._targets == 1:
            return [(0, batch)]
        targets = self._targets_of(batch)
        counts = self._counts(targets)
        present = [target for target, count in enumerate(counts) if count]
        if len(present) == 1:
            return [(present[0], batch)]
        # A stable sort of small integers is a radix sort; one take plus slices beats one take per target.
        ordered = _taken(batch, pa.array(np.argsort(targets, kind="stable")))
        result: Split = []
        start = 0
        for target in present:
            result.append((target, ordered.slice(start, counts[target])))
            start += counts[target]
        return _without_waste(result)

    def _counts(self, targets: npt.NDArray[np.unsignedinteger]) -> list[int]:
        if self._targets > _FEW_TARGETS:
            counts: list[int] = np.bincount(targets, minlength=self._targets).tolist()
            return counts
        return [int(np.count_nonzero(targets == target)) for target in range(self._targets)]

    def owned(self, batch: pa.RecordBatch, target: int) -> pa.RecordBatch:
        if self._targets == 1 or not batch.num_rows:
            return batch
        is_owned = self._targets_of(batch) == target
        return batch if is_owned.all() else _taken(batch, pa.array(np.flatnonzero(is_owned)))

    def _targets_of(self, batch: pa.RecordBatch) -> npt.NDArray[np.unsignedinteger]:
        hashes = hash_columns([batch.column(name) for name in self._key_columns], self._key_columns)
        # Indexing with the native integer type is three times as fast.
        return self._target_of_group[key_groups(hashes, self._max_parallelism).astype(np.intp)]


class Rebalance(Partitioner):
    """Whole batches in turn; large ones in pieces."""

    def __init__(self, targets: int, index: int, limit_bytes: int = REBALANCE_LIMIT_BYTES) -> None:
        self._targets = targets
        self._next = index % targets
        self._limit_bytes = limit_bytes

    def split(self, batch: pa.RecordBatch) -> Split:
        rows = batch.num_rows
        if not rows:
            return []
        size = batch.nbytes if self._targets > 1 else 0
        if size <= self._limit_bytes:
            return [(self._take_turn(), batch)]
        pieces = min(rows, max(-(-size // self._limit_bytes), self._targets))
        bounds = [rows * piece // pieces for piece in range(pieces + 1)]
        parts = [(self._take_turn(), batch.slice(start, end - start)) for start, end in itertools.pairwise(bounds)]
        return _without_waste(parts)

    def owned(self, batch: pa.RecordBatch, target: int) -> pa.RecordBatch:  # noqa: ARG002
        """Any subtask may process any row, so it owns all it was sent."""
        return batch

    def _take_turn(self) -> int:
        turn = self._next
        self._next = (turn + 1) % self._targets
        return turn


class Broadcast(Partitioner):
    """All rows to all subtasks."""

    def __init__(self, targets: int) -> None:
        self._targets = targets

    def split(self, batch: pa.RecordBatch) -> Split:
        return [(target, batch) for target in range(self._targets)] if batch.num_rows else []


class Single(Partitioner):
    """All rows to one subtask."""

    def __init__(self, target: int) -> None:
        self._target = target

    def split(self, batch: pa.RecordBatch) -> Split:
        return [(self._target, batch)] if batch.num_rows else []

    def owned(self, batch: pa.RecordBatch, target: int) -> pa.RecordBatch:
        return batch if target == self._target else batch.slice(0, 0)


def compacted(part: pa.RecordBatch) -> pa.RecordBatch:
    """A slice without unused data: view columns refer to whole buffers, which would all be sent."""
    if not any(map(_is_view, part.schema.types)):
        return part
    columns = [_copied(column) if _is_view(column.type) else column for column in part.columns]
    return pa.RecordBatch.from_arrays(columns, schema=part.schema)


def _without_waste(parts: Split) -> Split:
    if not any(map(_is_view, parts[0][1].schema.types)):
        return parts
    return [(target, compacted(part)) for target, part in parts]


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _copied(column: pa.Array) -> pa.Array:
    plain = pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary()
    return column.cast(plain).cast(column.type)


def _taken(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    try:
        return pc.call_function("take", [batch, rows], _IN_BOUNDS)
    except pa.ArrowNotImplementedError:
        columns = [_taken_column(column, rows) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _taken_column(column: pa.Array, rows: pa.Array) -> pa.Array:
    """`take`, also for types Arrow does not support: these are converted and back."""
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string()).take(rows).cast(kind)
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary()).take(rows).cast(kind)
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pc.run_end_decode(column).take(rows), run_end_type=kind.run_end_type)
    try:
        return column.take(rows)
    except pa.ArrowNotImplementedError as error:
        raise UserCodeError(
            f"a column of type {kind} cannot be partitioned by key: {error}; cast it to another type before `key_by`"
        ) from error


def make_partitioner(
    partitioning: Partitioning,
    key_columns: Sequence[str],
    targets: int,
    max_parallelism: int,
    index: int,
    operator: str = "",
) -> Partitioner:
    """How subtask `index` distributes rows to `targets` subtasks; `operator` is the first one there, for errors."""
    match partitioning:
        case Partitioning.HASH:
            return Hash(key_columns, targets, max_parallelism, operator)
        case Partitioning.REBALANCE:
            return Rebalance(targets, index)
        case Partitioning.BROADCAST:
            return Broadcast(targets)
        case Partitioning.GLOBAL:
            return Single(0)
        case Partitioning.FORWARD:
            return Single(index)

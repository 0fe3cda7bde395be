"""A stream of changes: record batches with a column that says what each row does to the result.

The column `CHANGE` is the last one, an int8 without nulls. A stream whose schema lacks it has inserts only. The rows
that are in the result form a multiset: inserts and updates after add a row to it, updates before and deletes take an
equal row out of it. Kinds say what the producer knows: taking apart an update into a delete and an insert changes
nothing, and batches may be cut between the two.

Streams of *upserts* have the same column but no updates before: a row replaces the one with the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError
from snapline.operators.changes.row_codes import row_codes
from snapline.state.arrays import Bools, Ints

CHANGE = "__change"
"""Name of the column with the kind of each change."""

CHANGE_FIELD = pa.field(CHANGE, pa.int8(), nullable=False)

Kinds = npt.NDArray[np.int8]


class ChangeKind(IntEnum):
    """What a row does. Those that take a row out of the result are odd."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self]


INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = ChangeKind


def is_changing(schema: pa.Schema) -> bool:
    """Whether a stream of this schema carries changes, or only inserts."""
    return CHANGE in schema.names


def with_change(schema: pa.Schema) -> pa.Schema:
    """The schema of a stream of changes to rows of `schema`. Returns a schema that has the column as it is."""
    return schema if is_changing(schema) else schema.append(CHANGE_FIELD)


def without_change(schema: pa.Schema) -> pa.Schema:
    """The schema of the rows that are changed."""
    if not is_changing(schema):
        return schema
    if schema.names[-1] != CHANGE:
        raise ConfigurationError(
            f"{CHANGE!r} must be the last column of a stream of changes, not one of {schema.names}"
        )
    return schema.remove(len(schema) - 1)


def kinds_of(batch: pa.RecordBatch) -> Kinds | None:
    """The kind of each row, or None if all are inserts."""
    if not is_changing(batch.schema):
        return None
    kinds: Kinds = batch.column(batch.num_columns - 1).to_numpy()
    return kinds if kinds.any() else None


def retractions(batch: pa.RecordBatch) -> Bools | None:
    """Which rows take a row out of the result; None if none does."""
    kinds = kinds_of(batch)
    if kinds is None:
        return None
    flags = (kinds & 1).astype(np.bool_)
    return flags if flags.any() else None


def weights_of(batch: pa.RecordBatch) -> Ints | None:
    """+1 for each row that is added, -1 for each that is taken out; None if all are added."""
    flags = retractions(batch)
    return None if flags is None else 1 - 2 * flags.astype(np.int64)


def rows_of_changes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without the column of kinds."""
    return batch.remove_column(batch.num_columns - 1) if is_changing(batch.schema) else batch


def change_batch(arrays: Sequence[pa.Array], kinds: Kinds | ChangeKind, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as changes of these kinds, or all of one kind; `schema` has the column of kinds."""
    if isinstance(kinds, ChangeKind):
        kinds = np.full(len(arrays[0]), kinds, dtype=np.int8)
    return pa.RecordBatch.from_arrays([*arrays, pa.array(kinds)], schema=schema)


def signed(weights: Ints) -> Kinds:
    """Inserts for positive weights, deletes for negative ones."""
    return np.where(weights > 0, INSERT, DELETE).astype(np.int8)


def consolidated(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without the changes that cancel each other out within it, in the same order.

    What is left of a row is its first deletes, or its last inserts. Floats are equal if their bits are.
    """
    weights = weights_of(batch)
    if weights is None or (weights < 0).all():
        return batch
    kept = surviving_rows(row_codes(batch.columns[:-1], batch.num_rows), weights)
    return batch if len(kept) == batch.num_rows else batch.take(pa.array(kept))


def surviving_rows(codes: pa.Array, weights: Ints) -> Ints:
    """The rows that are left of changes of weight +1 and -1 when those of equal codes have cancelled out; ascending."""
    encoded = pc.dictionary_encode(codes)
    identity = encoded.indices.to_numpy().astype(np.int64)
    net = np.bincount(identity, weights=weights, minlength=len(encoded.dictionary)).astype(np.int64)
    is_insert = weights > 0
    survives = np.zeros(len(weights), dtype=np.bool_)
    for chosen, step, left in ((np.flatnonzero(is_insert), -1, net), (np.flatnonzero(~is_insert), 1, -net)):
        rows = chosen[::step]
        survives[rows] = occurrences(identity[rows]) < left[identity[rows]]
    return np.flatnonzero(survives)


def occurrences(identity: Ints) -> Ints:
    """For each row, the number of rows before it with the same identity."""
    order = np.argsort(identity, kind="stable")
    ordered = identity[order]
    result = np.empty(len(identity), dtype=np.int64)
    result[order] = np.arange(len(identity)) - np.searchsorted(ordered, ordered)
    return result

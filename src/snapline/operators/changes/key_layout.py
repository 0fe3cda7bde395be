"""Key columns for any columns: state and partitioning know no null keys, and no decimal or nested ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import is_changing
from snapline.operators.changes.row_codes import row_codes
from snapline.operators.keyed_batches import decoded
from snapline.state.arrays import Ints
from snapline.state.stable_hash import is_bytes, is_text

PREFIX = "__key"
NULLS = "__key_nulls"
_MAX_BITS = 63


def is_keyable(kind: pa.DataType) -> bool:
    """Whether state can be keyed by values of this type."""
    return bool(
        is_text(kind)
        or is_bytes(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A column, or a struct or field inside it, at `path`. `kind` is the type of its key column, None for a struct.

    `has_bit` says that it has a bit for null.
    """

    path: tuple[int | str, ...]
    kind: pa.DataType | None
    has_bit: bool


class KeyLayout:
    """How columns of a stream become columns that it can be partitioned and its state keyed by.

    Two rows have equal key columns exactly if the values of `columns` are equal as SQL groups them: null equals null,
    NaN equals NaN, 0.0 equals -0.0. `nullable` says for each column whether null is a key like any other; by default
    it is where the field is nullable. Where it is not, null counts as zero or empty, and the reader must look at the
    column itself (joins do: null matches nothing). Without columns the key is a constant, so one subtask gets all rows.

    Layouts with equal types and `nullable` have equal key types: both sides of a join need that.

    `fields` are the columns that `with_keys` appends (before the column of changes), `key_columns` the names to key by.
    Structs, windows for example, have a key column for each of their fields.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[str], nullable: Sequence[bool] | None = None) -> None:
        self.columns = tuple(columns)
        kept = [schema.field(name) for name in self.columns]
        flags = [field.nullable for field in kept] if nullable is None else list(nullable)
        if len(flags) != len(kept):
            raise ConfigurationError(f"{len(flags)} flags for the key columns {', '.join(self.columns)}")
        self._parts: list[_Part] = []
        for field, has_bit in zip(kept, flags, strict=True):
            self._parts += _parts_of((field.name,), field.type, has_bit)
        bits = sum(part.has_bit for part in self._parts)
        if bits > _MAX_BITS:
            raise ConfigurationError(
                f"{bits} key columns, or fields of them, may be null; the most is {_MAX_BITS}: make an array of them"
            )
        kinds = [part.kind for part in self._parts if part.kind is not None]
        self.fields = [pa.field(f"{PREFIX}{number}", kind, nullable=False) for number, kind in enumerate(kinds)]
        self._has_nulls = bits > 0 or not kinds
        if self._has_nulls:
            self.fields.append(pa.field(NULLS, pa.int64(), nullable=False))
        self.key_columns = tuple(field.name for field in self.fields)

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema of batches after `with_keys`."""
        at = len(schema) - is_changing(schema)
        return pa.schema([*list(schema)[:at], *self.fields, *list(schema)[at:]], metadata=schema.metadata)

    def keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of a batch."""
        nulls: Ints = np.zeros(batch.num_rows, dtype=np.int64)
        found: dict[tuple[int | str, ...], pa.Array] = {}
        arrays: list[pa.Array] = []
        bit = 0
        for part in self._parts:
            *above, last = part.path
            column = found[part.path] if above else decoded(batch.column(last))
            if part.has_bit:
                if column.null_count:
                    nulls |= column.is_null().to_numpy(zero_copy_only=False).astype(np.int64) << bit
                bit += 1
            if part.kind is None:
                found |= {(*part.path, number): decoded(inside) for number, inside in enumerate(column.flatten())}
            else:
                arrays.append(_key_array(column, part.kind))
        return [*arrays, pa.array(nulls)] if self._has_nulls else arrays

    def with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its key columns."""
        at = batch.num_columns - is_changing(batch.schema)
        arrays = [*batch.columns[:at], *self.keys(batch), *batch.columns[at:]]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(batch.schema))


def _parts_of(path: tuple[int | str, ...], kind: pa.DataType, has_bit: bool) -> list[_Part]:
    if not pa.types.is_struct(kind) or not kind.num_fields:
        return [_Part(path, _key_type(kind), has_bit)]
    parts = [_Part(path, None, has_bit)]
    for number, field in enumerate(kind):
        # Inside a struct null is always a value: both sides of a join know that without looking at each other.
        parts += _parts_of((*path, number), field.type, True)
    return parts


class AddKeys(Operator):
    """Appends the key columns of a layout. Without state; goes ahead of the exchange."""

    def __init__(self, layout: KeyLayout) -> None:
        self._layout = layout

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self.context.emit(self._layout.with_keys(batch))


def _key_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _key_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return kind if is_keyable(kind) else pa.binary()


def _key_array(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column as a key column of type `kind`, without nulls."""
    if not is_keyable(column.type):
        return row_codes([column], len(column), normalise=True)
    if column.type != kind:
        column = column.cast(kind)
    if not column.null_count:
        return column
    if is_text(kind) or is_bytes(kind):
        empty = b"\0" * kind.byte_width if pa.types.is_fixed_size_binary(kind) else b"" if is_bytes(kind) else ""
        return pc.fill_null(column, pa.scalar(empty, kind))
    return pc.fill_null(column, pa.scalar(False if pa.types.is_boolean(kind) else 0, kind))

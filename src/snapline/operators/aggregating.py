"""Running aggregates by key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from snapline.api.aggregates import Aggregate
from snapline.api.operator import Operator, OperatorContext
from snapline.errors import EngineError
from snapline.state.backend import KeyedBackend
from snapline.state.states import ReducingState


class RunningAggregates(Operator):
    """Keeps aggregates for each key, and emits those of the keys in a batch after each batch.

    Each aggregate is a state under its own name, of the type that `schema` gives the column it comes out as.
    """

    _keyed: KeyedBackend
    _states: dict[str, ReducingState]

    def __init__(self, aggregates: Mapping[str, Aggregate], schema: pa.Schema) -> None:
        self._aggregates = dict(aggregates)
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        if context.states.keyed is None:
            raise EngineError(f"aggregate {context.uid!r} was opened without keyed state")
        self._keyed = context.states.keyed
        self._states = {
            name: self._keyed.reducing_state(name, self._schema.field(name).type, aggregate.reduce)
            for name, aggregate in self._aggregates.items()
        }

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        if not batch.num_rows:
            return
        columns = [batch.column(name) for name in self.context.key_columns]
        keys = self._keyed.keys(columns)
        for name, aggregate in self._aggregates.items():
            self._states[name].add_all(keys, _values(batch, aggregate))
        rows = first_rows(columns)
        distinct = keys.take(rows)
        arrays = [column.take(pa.array(rows)) for column in columns]
        arrays += [self._states[name].take(distinct) for name in self._aggregates]
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def first_rows(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """The row in which each distinct key comes first, in order."""
    names = [str(number) for number in range(len(columns))]
    table = pa.table([*map(_decoded, columns), pa.array(np.arange(len(columns[0])))], [*names, "row"])
    rows = table.group_by(names, use_threads=False).aggregate([("row", "min")]).column("row_min").to_numpy()
    ordered: npt.NDArray[np.int64] = np.sort(rows)
    return ordered


def _values(batch: pa.RecordBatch, aggregate: Aggregate) -> pa.Array:
    if aggregate.column is None:
        return pa.array(np.ones(batch.num_rows, dtype=np.int64))
    return _decoded(batch.column(aggregate.column))


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

"""What windows emit: a row of aggregates, or the result of a user function over all rows of the window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from snapline.contracts.operator import OperatorContext
from snapline.contracts.schemas import conform
from snapline.operators.row_batches import raised
from snapline.state.arrays import Ints
from snapline.text import shortened

WINDOW_COLUMNS = ("window_start", "window_end")

_EMIT_ROWS = 65_536
"""Maximum rows of an emitted batch."""

_EMIT_BATCHES = 1024
"""Results of functions, often one row each, are emitted together once there are this many batches."""


class Window(NamedTuple):
    """The bounds of a window, with the type of the time column; `end` is exclusive."""

    start: Any
    end: Any


def bounds(times_ms: Ints, kind: pa.DataType) -> pa.Array:
    """Milliseconds as a column of window bounds."""
    numbers = pa.array(times_ms)
    if not pa.types.is_timestamp(kind):
        return numbers
    return numbers.view(pa.timestamp("ms", tz=kind.tz)).cast(kind)


class Results(ABC):
    """Makes the output rows of firing windows. `schema` is their schema."""

    def __init__(self, schema: pa.Schema, bounds_kind: pa.DataType | None) -> None:
        self.schema = schema
        self._bounds = bounds_kind

    @abstractmethod
    def emit(
        self, context: OperatorContext, keys: list[pa.Array], starts: Ints, ends: Ints, taken: list[pa.Array]
    ) -> None:
        """Emit what was taken from state for keys and windows."""

    def _window_columns(self, starts: Ints, ends: Ints) -> list[pa.Array]:
        return [] if self._bounds is None else [bounds(starts, self._bounds), bounds(ends, self._bounds)]


class AggregateResults(Results):
    """A row per key and window. Bounds that are also key columns are not repeated."""

    def emit(
        self, context: OperatorContext, keys: list[pa.Array], starts: Ints, ends: Ints, taken: list[pa.Array]
    ) -> None:
        bound = zip(WINDOW_COLUMNS, self._window_columns(starts, ends), strict=False)
        windows = [column for name, column in bound if name not in context.key_columns]
        columns = [*keys, *windows, *taken]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        for start in range(0, batch.num_rows, _EMIT_ROWS):
            context.emit(batch.slice(start, _EMIT_ROWS))


class FunctionResults(Results):
    """The results of a function called with a key, a window and a table of its rows, stored as a list of structs."""

    def __init__(
        self, function: Callable[[Any, Any, pa.Table], Any], schema: pa.Schema, bounds_kind: pa.DataType | None
    ) -> None:
        super().__init__(schema, bounds_kind)
        self._function = function

    def emit(
        self, context: OperatorContext, keys: list[pa.Array], starts: Ints, ends: Ints, taken: list[pa.Array]
    ) -> None:
        what = f"window process {context.uid!r}"
        names = zip(*(column.to_pylist() for column in keys), strict=True)
        windows = zip(*(column.to_pylist() for column in self._window_columns(starts, ends)), strict=True)
        (lists,) = taken
        made: list[pa.RecordBatch] = []
        for row, key in enumerate(names):
            window = None if self._bounds is None else Window(*next(windows))
            table = pa.Table.from_struct_array(lists[row].values)
            try:
                given = list(batches_of(self._function(key if len(key) > 1 else key[0], window, table), self.schema))
                given = [conform(batch, self.schema, what) for batch in given if batch.num_rows]
            except Exception as error:
                shown = shortened(key if len(key) > 1 else key[0])
                raise raised(what, error, f", for the key {shown} with {table.num_rows} rows") from error
            made += given
            if len(made) >= _EMIT_BATCHES:
                self._emit_together(context, made)
                made = []
        self._emit_together(context, made)

    def _emit_together(self, context: OperatorContext, made: list[pa.RecordBatch]) -> None:
        for batch in pa.Table.from_batches(made, self.schema).combine_chunks().to_batches():
            context.emit(batch)


def batches_of(made: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The result of a function as batches: it may be batches, tables, dicts of one row each, or None."""
    if isinstance(made, pa.RecordBatch):
        yield made
    elif isinstance(made, pa.Table):
        yield from made.to_batches()
    elif isinstance(made, dict):
        yield _rows([made], schema)
    elif isinstance(made, Iterable) and not isinstance(made, str | bytes):
        items = list(made)
        if items and all(isinstance(item, dict) for item in items):
            yield _rows(items, schema)
            return
        for item in items:
            yield from batches_of(item, schema)
    elif made is not None:
        raise TypeError(f"it gave {shortened(made)}; it must return a batch, a table, dicts of rows, or None")


def _rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    for row in rows:
        if row.keys() != set(schema.names):
            raise TypeError(f"it gave a row with {', '.join(map(str, row))}; its schema has {', '.join(schema.names)}")
    return pa.RecordBatch.from_pylist(rows, schema=schema)

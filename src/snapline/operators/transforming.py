"""Operators without state that make batches of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.api.operator import Operator
from snapline.api.schemas import conform
from snapline.errors import UserCodeError
from snapline.state.exact import shortened


class MapBatches(Operator):
    """Applies a function of the user's to each batch."""

    def __init__(self, function: Callable[[pa.RecordBatch], Any], schema: pa.Schema) -> None:
        self._function = function
        self._schema = schema

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        what = f"map_batches {self.context.uid!r}"
        try:
            # The function may be a generator, whose code runs while its batches are taken.
            made = [item for item in batches_of(self._function(batch)) if item.num_rows]
        except Exception as error:
            raise UserCodeError(f"{what} raised {type(error).__name__}: {error}") from error
        for item in made:
            self.context.emit(conform(item, self._schema, what))


class Filter(Operator):
    """Keeps the rows of which an expression, or a function of the batch, says true."""

    def __init__(self, predicate: Any) -> None:
        self._predicate = predicate

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        try:
            kept = batch.filter(self._mask(batch))
        except UserCodeError:
            raise
        except Exception as error:
            raise UserCodeError(f"filter {self.context.uid!r} raised {type(error).__name__}: {error}") from error
        if kept.num_rows:
            self.context.emit(kept)

    def _mask(self, batch: pa.RecordBatch) -> Any:
        if isinstance(self._predicate, pc.Expression):
            return self._predicate
        given = self._predicate(batch)
        mask = given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given
        mask = mask if isinstance(mask, pa.Array) else pa.array(mask)
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            raise UserCodeError(
                f"filter {self.context.uid!r}: the function gave {len(mask)} values of the type {mask.type} for "
                f"{batch.num_rows} rows; it must give true or false for each"
            )
        return mask


def batches_of(made: Any) -> Iterator[pa.RecordBatch]:
    """The batches a function of the user's gave: one, none, or several."""
    if isinstance(made, pa.RecordBatch):
        yield made
    elif isinstance(made, pa.Table):
        yield from made.to_batches() or [pa.RecordBatch.from_pylist([], schema=made.schema)]
    elif isinstance(made, Iterable) and not isinstance(made, str | bytes | dict):
        for item in made:
            yield from batches_of(item)
    elif made is not None:
        raise TypeError(f"it gave {shortened(made)}; it must give a RecordBatch, None, or several batches")

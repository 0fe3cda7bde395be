"""Stateless operators that call a user function with batches or rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import length_hint
from typing import Any

import pyarrow as pa

from snapline.contracts.dead_letters import OnError, salvaged
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import Row, conform
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.batch_formats import Format
from snapline.operators.call_guard import fitting_rows
from snapline.operators.row_batches import MAX_ROWS, row_at, rows_of
from snapline.text import shortened


class _Function(Operator):
    """Base of these operators: a function, and what to do with rows it fails for. `name` is what the user called."""

    name: str

    def __init__(self, function: Callable[[Any], Any], on_error: OnError = OnError.FAIL) -> None:
        self._function = function
        self._on_error = on_error

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{self.name} {context.uid!r}"
        self._bad = BadRows(self, context, self._what, self._on_error)


class MapBatches(_Function):
    """Applies a function to each batch."""

    name = "map_batches"

    def __init__(
        self, function: Callable[[Any], Any], schema: pa.Schema, form: Format, on_error: OnError = OnError.FAIL
    ) -> None:
        super().__init__(function, on_error)
        self._schema = schema
        self._format = form

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._format.open()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for made in self._bad.parts(self._made, batch):
            for item in made:
                self.context.emit(item)
        self._bad.flush()

    def _made(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        given = self._function(self._format.given(batch))
        # The function may be a generator, which runs while its batches are consumed.
        items = list(self._format.batches(given, self._schema, self._what))
        return [conform(item, self._schema, self._what) for item in items if item.num_rows]


class Filter(_Function):
    """Keeps the rows for which a function of the batch returns true."""

    name = "filter"

    def __init__(self, predicate: Callable[[Any], Any], form: Format, on_error: OnError = OnError.FAIL) -> None:
        super().__init__(predicate, on_error)
        self._format = form

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._format.open()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for kept in self._bad.parts(self._kept, batch):
            if kept.num_rows:
                self.context.emit(kept)
        self._bad.flush()

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = self._format.mask(self._function(self._format.given(batch)))
        mask = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
        mask = mask if isinstance(mask, pa.Array) else pa.array(mask)
        mask = mask.cast(pa.bool_()) if pa.types.is_null(mask.type) else mask
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            raise UserCodeError(
                f"{self._what}: the function gave {len(mask)} values of the type {mask.type} for {batch.num_rows} "
                "rows; it must return true or false for each"
            )
        return batch.filter(mask)


class FilterRows(_Function):
    """Keeps the rows for which a function of the row returns true."""

    name = "filter"

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        answers, _ = self._bad.each(self._function, batch)

        def wrong(number: int, error: Exception) -> None:
            del error
            given, answers[number] = answers[number], None
            problem = UserCodeError(
                f"{self._what}: the function gave {shortened(given)}; it must return True or False. For a function of "
                "whole batches use filter(..., format='arrow')"
            )
            self._bad.take(problem, row_at(batch, number))

        masks = list(salvaged(lambda start, end: pa.array(answers[start:end], pa.bool_()), 0, len(answers), wrong))
        mask = masks[0] if len(masks) == 1 else pa.array(answers, pa.bool_())
        kept = batch.filter(mask)
        if kept.num_rows:
            self.context.emit(kept)
        self._bad.flush()


class MapRows(_Function):
    """Maps each row to one row."""

    name = "map"

    def __init__(self, function: Callable[[Row], Any], schema: pa.Schema, on_error: OnError = OnError.FAIL) -> None:
        super().__init__(function, on_error)
        self._schema = schema

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        made, bad = self._bad.each(self._function, batch)
        numbers: list[int] | range = range(batch.num_rows)
        if bad:
            numbers = [number for number in numbers if number not in bad]
            made = [made[number] for number in numbers]
        if made:
            for fitting in self._bad.fitting(made, self._schema, lambda place: row_at(batch, numbers[place])):
                self.context.emit(fitting)
        self._bad.flush()


class FlatMapRows(MapRows):
    """Maps each row to any number of rows."""

    name = "flat_map"

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        made: list[Any] = []
        # Where the results of each row end, from row number `first` on; not needed if a bad row fails the job.
        ends: list[int] = []
        note = None if self._bad.may_fail else ends.append
        first = 0
        left = iter(rows_of(batch))
        for row in left:
            try:
                given = self._function(row)
                if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict):
                    made.extend(given)
                elif given is not None:
                    raise UserCodeError(
                        f"{self._what} gave {shortened(given)}; it must return several rows, for example a list of "
                        "dicts, or None. For one row use map()"
                    )
            except Exception as error:
                del made[ends[-1] if ends else 0 :]  # a row that fails emits nothing
                self._bad.take(error, row_at(batch, batch.num_rows - length_hint(left) - 1))
            if note is not None:
                note(len(made))
            if len(made) >= MAX_ROWS:
                self._emit_made(made, ends, batch.slice(first))
                made.clear()
                ends.clear()
                first = batch.num_rows - length_hint(left)
        self._emit_made(made, ends, batch.slice(first))
        self._bad.flush()

    def _emit_made(self, made: list[Any], ends: list[int], batch: pa.RecordBatch) -> None:
        if made and self._bad.may_fail:
            self.context.emit(fitting_rows(made, self._schema, self._what))
        elif made:
            for fitting in self._bad.fitting(made, self._schema, lambda number: row_at(batch, number), ends):
                self.context.emit(fitting)

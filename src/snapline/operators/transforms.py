"""Stateless operators that call a user function with batches or rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import Row, conform
from snapline.errors import UserCodeError
from snapline.operators.batch_formats import Format
from snapline.operators.row_batches import MAX_ROWS, UserCode, batch_of, raised, rows_of
from snapline.text import shortened


class MapBatches(Operator):
    """Applies a function to each batch."""

    def __init__(self, function: Callable[[Any], Any], schema: pa.Schema, form: Format) -> None:
        self._function = function
        self._schema = schema
        self._format = form

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._format.open()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"map_batches {self.context.uid!r}"
        form = self._format
        try:
            # The function may be a generator, which runs while its batches are consumed.
            made = [
                item for item in form.batches(self._function(form.given(batch)), self._schema, what) if item.num_rows
            ]
        except UserCodeError:
            raise
        except Exception as error:
            raise raised(what, error) from error
        for item in made:
            self.context.emit(conform(item, self._schema, what))


class Filter(Operator):
    """Keeps the rows for which a function of the batch returns true."""

    def __init__(self, predicate: Callable[[Any], Any], form: Format) -> None:
        self._predicate = predicate
        self._format = form

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._format.open()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"filter {self.context.uid!r}"
        with UserCode(what):
            mask = self._format.mask(self._predicate(self._format.given(batch)))
            mask = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
            mask = mask if isinstance(mask, pa.Array) else pa.array(mask)
            mask = mask.cast(pa.bool_()) if pa.types.is_null(mask.type) else mask
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            raise UserCodeError(
                f"{what}: the function gave {len(mask)} values of the type {mask.type} for {batch.num_rows} rows; it "
                "must return true or false for each"
            )
        kept = batch.filter(mask)
        if kept.num_rows:
            self.context.emit(kept)


class FilterRows(Operator):
    """Keeps the rows for which a function of the row returns true."""

    def __init__(self, predicate: Callable[[Row], Any]) -> None:
        self._predicate = predicate

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"filter {self.context.uid!r}"
        with UserCode(what):
            answers = list(map(self._predicate, rows_of(batch)))
        try:
            mask = pa.array(answers, pa.bool_())
        except (pa.ArrowException, TypeError, ValueError):
            wrong = next((answer for answer in answers if answer is not None and not isinstance(answer, bool)), answers)
            raise UserCodeError(
                f"{what}: the function gave {shortened(wrong)} for a row; it must return True or False. For a "
                "function of whole batches use filter(..., format='arrow')"
            ) from None
        kept = batch.filter(mask)
        if kept.num_rows:
            self.context.emit(kept)


class MapRows(Operator):
    """Maps each row to one row."""

    def __init__(self, function: Callable[[Row], Any], schema: pa.Schema) -> None:
        self._function = function
        self._schema = schema

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"map {self.context.uid!r}"
        with UserCode(what):
            made = list(map(self._function, rows_of(batch)))
        self._emit(made, what)

    def _emit(self, rows: list[Any], what: str) -> None:
        if rows:
            self.context.emit(batch_of(rows, self._schema, what))


class FlatMapRows(MapRows):
    """Maps each row to any number of rows."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        what = f"flat_map {self.context.uid!r}"
        made: list[Any] = []
        for row in rows_of(batch):
            try:
                given = self._function(row)
                if isinstance(given, Iterable) and not isinstance(given, str | bytes | dict):
                    made.extend(given)
                    given = None
            except Exception as error:
                raise raised(what, error) from error
            if given is not None:
                raise UserCodeError(
                    f"{what} gave {shortened(given)} for a row; it must return several rows, for example a list of "
                    "dicts, or None. For one row use map()"
                )
            if len(made) >= MAX_ROWS:
                self._emit(made, what)
                made = []
        self._emit(made, what)

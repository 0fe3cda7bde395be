"""Operators that run functions with state and timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.contracts.contexts import BatchContext, ProcessContext
from snapline.contracts.dead_letters import OnError
from snapline.contracts.functions import BatchProcessFunction, CoProcessFunction, ProcessFunction
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import Row, conform
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.call_guard import CallGuard, check_result, fitting_rows, for_timer, output_text
from snapline.operators.event_time import SavedWatermark
from snapline.operators.row_batches import MAX_ROWS, UserCode, raised, rows_of
from snapline.operators.row_timers import RowTimers
from snapline.state.timers import TimeDomain
from snapline.text import for_row, shortened
from snapline.types import MAX_WATERMARK

_NAME = "process"


@dataclass(frozen=True, slots=True)
class FunctionInput:
    """One input of a function: its key columns, empty if it is not keyed, and its event-time column, if any."""

    key_columns: tuple[str, ...]
    time_column: str | None
    is_broadcast: bool = False


@dataclass(frozen=True, slots=True)
class FunctionOutputs:
    """The schemas of the output and of the side outputs of a function."""

    schema: pa.Schema
    side_outputs: Mapping[str, pa.Schema]


class Process(Operator):
    """Calls a function with each row of one or two streams."""

    _is_open = False

    def __init__(
        self,
        function: ProcessFunction | CoProcessFunction,
        sides: Sequence[FunctionInput],
        outputs: FunctionOutputs,
        *,
        has_uid: bool,
        has_event_time: bool,
        on_error: OnError = OnError.FAIL,
    ) -> None:
        self._function = function
        self._sides = tuple(sides)
        self._outputs = outputs
        self._on_error = on_error
        self._has_uid = has_uid
        self._has_event_time = has_event_time

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{_NAME} {context.uid!r}"
        self._keyed = context.states.keyed
        self._timers = None if self._keyed is None else RowTimers(self._keyed)
        self._context = ProcessContext(
            _NAME,
            context,
            self._timers,
            tuple(self._outputs.side_outputs),
            has_uid=self._has_uid,
            has_event_time=self._has_event_time,
            has_broadcast=any(side.is_broadcast for side in self._sides),
        )
        self._watermark = SavedWatermark(context)
        self._context._watermark_ms = self._watermark.ms
        function = self._function
        self._calls: tuple[Callable[[Row, ProcessContext], Any], ...] = (
            (function.process,)
            if isinstance(function, ProcessFunction)
            else (function.process_first, function.process_second)
        )
        self._bad = BadRows(self, context, self._what, self._on_error)
        self._guard = (
            None
            if self._bad.may_fail
            else CallGuard(
                self._context, context, self._bad, {"": self._outputs.schema, **self._outputs.side_outputs}, self._what
            )
        )
        if self._guard is not None:
            self._calls = tuple(map(self._guard.guarded, self._calls))
        self._is_open = True
        with UserCode(self._what):
            function.open(self._context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        side, call, context = self._sides[input_index], self._calls[input_index], self._context
        context._key_columns, context._time_column = side.key_columns, side.time_column
        context._may_write_broadcast = side.is_broadcast
        if self._guard is not None:
            self._guard.begin(batch)
        try:
            if side.key_columns:
                self._process_keyed(batch, side, call)
            else:
                if self._keyed is not None:
                    self._keyed.select_none()
                for row in rows_of(batch):
                    context._row = row
                    self._check(call(row, context))
        except Exception as error:
            self._discard()
            raise raised(self._what, error, for_row(context._row)) from error
        finally:
            context._row = None
        self._flush()

    def _process_keyed(
        self, batch: pa.RecordBatch, side: FunctionInput, call: Callable[[Row, ProcessContext], Any]
    ) -> None:
        context, keyed = self._context, self._keyed
        assert keyed is not None
        selection, emitted = keyed.selection, context._rows
        owners = selection.begin(keyed.keys([batch.column(name) for name in side.key_columns]))
        for owner, row in zip(owners, rows_of(batch), strict=True):
            selection.owner = owner
            context._row = row
            made = call(row, context)
            if made is not None or len(emitted) >= MAX_ROWS:
                self._check(made)
        context._row = None
        selection.end()

    def _discard(self) -> None:
        """A call has failed: nothing of the batch is left behind."""
        if self._keyed is not None:
            self._keyed.selection.discard()

    def _check(self, made: object) -> None:
        """Check the result of a call, and flush if the function has emitted many rows."""
        if made is not None:
            check_result(made)
        if len(self._context._rows) >= MAX_ROWS:
            self._flush()

    def watermark(self, timestamp_ms: int) -> None:
        self._watermark.advance(timestamp_ms)
        self._context._watermark_ms = self._watermark.ms
        self._fire(TimeDomain.EVENT, self._watermark.ms)

    def next_wakeup_ms(self) -> int | None:
        return None if self._timers is None else self._timers.next_ms(TimeDomain.PROCESSING)

    def wakeup(self, now_ms: int) -> None:
        self._fire(TimeDomain.PROCESSING, now_ms)

    def _fire(self, domain: TimeDomain, until_ms: int) -> None:
        if self._timers is None:
            return
        context, function = self._context, self._function
        context._may_write_broadcast = False
        context.time_domain = domain

        on_timer = function.on_timer if self._guard is None else self._guard.guarded_timer(function.on_timer)
        at_ms: int | None = None

        def call(time_ms: int, key: Any) -> None:
            nonlocal at_ms
            context._key, at_ms = key, time_ms
            self._check(on_timer(time_ms, context))
            at_ms = None

        try:
            self._timers.fire(domain, until_ms, call)
        except Exception as error:
            self._discard()
            where = "" if at_ms is None else for_timer(at_ms, context._key)
            raise raised(self._what, error, where) from error
        finally:
            context.time_domain = None
        self._flush()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._keyed is not None:
            self._keyed.select_none()
        self._context._may_write_broadcast = False
        with UserCode(self._what):
            self._function.prepare_snapshot(checkpoint_id, self._context)
        self._flush()

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        with UserCode(self._what):
            self._function.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        with UserCode(self._what):
            self._function.checkpoint_aborted(checkpoint_id)

    def _flush(self) -> None:
        """Emit the rows collected from the function."""
        context = self._context
        if self._guard is not None:
            self._guard.flush()
            return
        if context._rows:
            batch = fitting_rows(context._rows, self._outputs.schema, self._what)
            context._rows.clear()
            self.context.emit(batch)
        for name, rows in context._side_rows.items():
            if rows:
                batch = fitting_rows(rows, self._outputs.side_outputs[name], output_text(self._what, name))
                rows.clear()
                self.context.emit_to(name, batch)

    def close(self) -> None:
        if self._is_open:
            self._function.close()


class ProcessBatches(Operator):
    """Calls a function with each batch of a stream."""

    _is_open = False

    def __init__(
        self,
        function: BatchProcessFunction,
        outputs: FunctionOutputs,
        *,
        has_uid: bool,
        on_error: OnError = OnError.FAIL,
    ) -> None:
        self._function = function
        self._outputs = outputs
        self._has_uid = has_uid
        self._on_error = on_error
        self._made: list[tuple[str, pa.RecordBatch]] | None = None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{_NAME} {context.uid!r}"
        self._keyed = context.states.keyed
        self._context = BatchContext(_NAME, context, self._emit, self._emit_to, has_uid=self._has_uid)
        self._watermark = SavedWatermark(context)
        self._context._watermark_ms = self._watermark.ms
        self._bad = BadRows(self, context, self._what, self._on_error)
        self._is_open = True
        with UserCode(self._what):
            self._function.open(self._context)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        for made in self._bad.parts(self._processed, batch):
            for name, item in made:
                self._pass_on(name, item)
        self._bad.flush()

    def _processed(self, batch: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
        """Call the function. Returns what it emits, by output, unless that is passed on at once."""
        # A call that fails and is repeated must not have emitted anything.
        made: list[tuple[str, pa.RecordBatch]] = []
        self._made = None if self._bad.may_fail else made
        try:
            self._function.process_batch(batch, self._context)
        finally:
            self._made = None
        return made

    def watermark(self, timestamp_ms: int) -> None:
        self._watermark.advance(timestamp_ms)
        self._context._watermark_ms = self._watermark.ms
        self._fire(TimeDomain.EVENT, self._watermark.ms)

    def next_wakeup_ms(self) -> int | None:
        return None if self._keyed is None else self._keyed.timers().next_ms(TimeDomain.PROCESSING)

    def wakeup(self, now_ms: int) -> None:
        self._fire(TimeDomain.PROCESSING, now_ms)

    def _fire(self, domain: TimeDomain, until_ms: int) -> None:
        if self._keyed is None:
            return
        timers = self._keyed.timers()
        self._context.time_domain = domain
        # Timers due at the end may set more, which are due at once too; a limit stops an endless loop.
        rounds = 100_000 if until_ms == MAX_WATERMARK else None
        fired = 0
        while (due := timers.due(domain, until_ms)) is not None:
            with UserCode(self._what):
                self._function.on_timers(due, self._context)
            fired += 1
            if rounds is not None and fired >= rounds:
                raise UserCodeError(
                    f"{self._what}: after the end of the data timers keep setting more; check context.has_ended in "
                    "on_timers and set none then"
                )
        self._context.time_domain = None

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._keyed is not None:
            self._keyed.select_none()
        with UserCode(self._what):
            self._function.prepare_snapshot(checkpoint_id, self._context)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        with UserCode(self._what):
            self._function.checkpoint_completed(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        with UserCode(self._what):
            self._function.checkpoint_aborted(checkpoint_id)

    def _emit(self, batch: pa.RecordBatch) -> None:
        self._pass_on("", _checked(batch, self._outputs.schema, self._what))

    def _emit_to(self, name: str, batch: pa.RecordBatch) -> None:
        schema = self._outputs.side_outputs.get(name)
        if schema is None:
            known = ", ".join(map(repr, self._outputs.side_outputs)) or "none"
            raise UserCodeError(f"there is no side output {name!r}, there is {known}; name it in side_outputs=")
        self._pass_on(name, _checked(batch, schema, output_text(self._what, name)))

    def _pass_on(self, output: str, batch: pa.RecordBatch) -> None:
        if self._made is not None:
            self._made.append((output, batch))
        elif output:
            self.context.emit_to(output, batch)
        else:
            self.context.emit(batch)

    def close(self) -> None:
        if self._is_open:
            self._function.close()


def _checked(batch: Any, schema: pa.Schema, what: str) -> pa.RecordBatch:
    if not isinstance(batch, pa.RecordBatch):
        raise UserCodeError(f"{shortened(batch)} was emitted; emit a pyarrow.RecordBatch")
    return conform(batch, schema, what)

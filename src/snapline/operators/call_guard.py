"""Calls of a row function that may fail for single rows and timers without failing the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.contracts.contexts import ProcessContext
from snapline.contracts.dead_letters import salvaged
from snapline.contracts.operator import OperatorContext
from snapline.contracts.schemas import Row
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.row_batches import batch_of, row_at
from snapline.text import for_row, shortened

Call: TypeAlias = Callable[[Any, ProcessContext], Any]


class CallGuard:
    """Takes a row or timer that a function fails for as a bad row, and drops what that call has emitted.

    `schemas` are those of the outputs, "" for the main one. What the call has changed in state stays changed.
    """

    def __init__(
        self,
        context: ProcessContext,
        operator: OperatorContext,
        bad: BadRows,
        schemas: Mapping[str, pa.Schema],
        what: str,
    ) -> None:
        self._operator = operator
        self._bad = bad
        self._schemas = schemas
        self._what = what
        self._batch: pa.RecordBatch | None = None
        self._number = 0
        # Of each call since the last flush: its row or timer, and where its rows end in each output; and those rows.
        self._origins: list[int | tuple[int, Any]] = []
        self._outputs: list[tuple[list[int], list[Row]]] = [
            ([], rows) for rows in (context._rows, *context._side_rows.values())
        ]

    def begin(self, batch: pa.RecordBatch) -> None:
        """The next calls are for the rows of this batch, in order."""
        self._batch, self._number = batch, 0

    def guarded(self, call: Call) -> Call:
        """A function of a row that never raises what can be blamed on the row."""

        def run(row: Any, context: ProcessContext) -> None:
            number = self._number
            self._number = number + 1
            self._run(call, row, context, number)

        return run

    def guarded_timer(self, call: Call) -> Call:
        """The same for a function of a timer."""

        def run(time_ms: int, context: ProcessContext) -> None:
            self._run(call, time_ms, context, (time_ms, context.key))

        return run

    def _run(self, call: Call, argument: Any, context: ProcessContext, origin: int | tuple[int, Any]) -> None:
        try:
            made = call(argument, context)
            if made is not None:
                check_result(made)
        except Exception as error:
            for ends, rows in self._outputs:
                del rows[ends[-1] if ends else 0 :]
            self._fail(error, origin)
            return
        self._origins.append(origin)
        for ends, rows in self._outputs:
            ends.append(len(rows))

    def flush(self) -> None:
        """Emit the rows collected since the last call, without those of calls whose rows do not fit."""
        if any(rows for _, rows in self._outputs):
            for batches in salvaged(self._batches, 0, len(self._origins), self._misfit):
                for name, batch in batches.items():
                    if name:
                        self._operator.emit_to(name, batch)
                    else:
                        self._operator.emit(batch)
        self._origins.clear()
        for ends, rows in self._outputs:
            ends.clear()
            rows.clear()
        self._bad.flush()

    def _batches(self, start: int, end: int) -> dict[str, pa.RecordBatch]:
        found: dict[str, pa.RecordBatch] = {}
        for (name, schema), (ends, rows) in zip(self._schemas.items(), self._outputs, strict=True):
            some = rows[ends[start - 1] if start else 0 : ends[end - 1]]
            if some:
                found[name] = batch_of(some, schema, output_text(self._what, name))
        return found

    def _misfit(self, number: int, error: Exception) -> None:
        self._fail(error, self._origins[number])

    def _fail(self, error: Exception, origin: int | tuple[int, Any]) -> None:
        if isinstance(origin, int):
            assert self._batch is not None
            self._bad.take(error, row_at(self._batch, origin))
        else:
            time_ms, key = origin
            self._bad.take(error, {"timer_ms": time_ms, "key": key}, where=for_timer(time_ms, key))


def check_result(made: object) -> None:
    """Raise `UserCodeError` if a row function has returned something instead of emitting it."""
    if made is not None:
        raise UserCodeError(f"the function gave {shortened(made)}; emit rows with context.emit(row)")


def output_text(what: str, output: str) -> str:
    """What messages call an output of a function."""
    return f"{what}, side output {output!r}," if output else what


def fitting_rows(rows: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Emitted rows as a batch. Raises `UserCodeError` with the row that does not fit."""

    def misfit(number: int, error: Exception) -> None:
        row = rows[number]
        shown = for_row(row).replace("for the row", "in the row", 1) if isinstance(row, Mapping) else ""
        raise UserCodeError(f"{error}{shown}") from error

    batches = list(salvaged(lambda start, end: batch_of(rows[start:end], schema, what), 0, len(rows), misfit))
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def for_timer(time_ms: int, key: Any) -> str:
    """The end of a message about a timer."""
    return f", for the timer at {time_ms} ms of the key {shortened(key)}"

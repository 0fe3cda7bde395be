"""What becomes of rows that user code cannot process: the job fails, or they are counted and dropped or sent aside."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from snapline.contracts.dead_letters import (
    DEAD_LETTER_SCHEMA,
    DEAD_LETTERS,
    OnError,
    is_about_row,
    row_json,
    salvaged,
)
from snapline.contracts.operator import OperatorContext
from snapline.contracts.schemas import Row
from snapline.operators.row_batches import batch_of, raised, row_at, rows_of
from snapline.text import for_batch, for_row, is_milestone

_log = logging.getLogger(__name__)

_MAX_ERROR_CHARACTERS = 2000
"""Longer texts of exceptions are cut in dead letters."""

_GOES_ON = {OnError.DEAD_LETTER: "goes to dead letters", OnError.DROP: "is dropped"}

Made = TypeVar("Made")


class Owner(Protocol):
    """The operator or source that has bad rows; its task reports these figures."""

    bad_rows: int
    last_bad_row: str


class BadRows:
    """Takes the bad rows of one operator in one subtask. `what` is what messages call the operator.

    Dead letters are collected until `flush`, which the operator calls before it returns to its task.
    """

    def __init__(self, owner: Owner, context: OperatorContext, what: str, on_error: OnError) -> None:
        self._owner = owner
        self._context = context
        self._what = what
        self._on_error = on_error
        self._letters: list[Row] = []

    @property
    def may_fail(self) -> bool:
        """Whether a bad row fails the job."""
        return self._on_error is OnError.FAIL

    def take(
        self,
        error: Exception,
        row: Mapping[str, Any] | None = None,
        *,
        where: str | None = None,
        text: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """Raise the error with the row in its message, or count the row and pass it on.

        Errors that are not about the row are raised in any case. `where` replaces the row in the message, and `text`
        replaces it in the dead letter.
        """
        problem = raised(self._what, error, for_row(row) if where is None else where)
        if problem is error:
            raise error
        if self.may_fail or not is_about_row(error):
            raise problem from error
        before, owner = self._owner.bad_rows, self._owner
        owner.bad_rows, owner.last_bad_row = before + 1, str(problem)
        if is_milestone(before, owner.bad_rows):
            _log.warning(
                "bad rows so far: %d, and the last one %s: %s", owner.bad_rows, _GOES_ON[self._on_error], problem
            )
        if self._on_error is OnError.DEAD_LETTER:
            self._letters.append(
                {
                    "operator": self._context.uid,
                    "error_type": type(error).__name__,
                    "error": str(error)[:_MAX_ERROR_CHARACTERS],
                    "row": text if row is None else row_json(row),
                    "time": self._context.clock(),
                    "file": file,
                    "line": line,
                }
            )

    def flush(self) -> None:
        """Emit the dead letters collected so far."""
        if self._letters:
            columns = [
                pa.array([letter[field.name] for letter in self._letters], field.type) for field in DEAD_LETTER_SCHEMA
            ]
            self._letters.clear()
            self._context.emit_to(DEAD_LETTERS, pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA))

    def each(self, function: Callable[[Row], Any], batch: pa.RecordBatch) -> tuple[list[Any], set[int]]:
        """Call a function with each row. Returns the results, None for a bad row, and the numbers of the bad rows."""
        made: list[Any] = []
        bad: set[int] = set()
        left = iter(rows_of(batch))
        while len(made) < batch.num_rows:
            # `extend` keeps what it has when the function raises; `left` then stands behind the row that failed.
            try:
                made.extend(map(function, left))
                if len(made) == batch.num_rows:
                    break
                # To `map`, StopIteration is the end of the rows.
                error: Exception = StopIteration()
            except Exception as found:
                error = found
            self.take(error, row_at(batch, len(made)))
            bad.add(len(made))
            made.append(None)
        return made, bad

    def fitting(
        self, made: Sequence[Any], schema: pa.Schema, row_of: Callable[[int], Row], ends: Sequence[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows that a function returned, as batches of a schema, without those that do not fit.

        `row_of` returns the row that result number n was made of. With `ends` a row has several results or none: those
        of row n are before `ends[n]`, and all of them are left out if one does not fit.
        """

        def attempt(start: int, end: int) -> pa.RecordBatch:
            if ends is not None:
                start, end = ends[start - 1] if start else 0, ends[end - 1]
            return batch_of(made[start:end], schema, self._what)

        count = len(made) if ends is None else len(ends)
        found = salvaged(attempt, 0, count, lambda number, error: self.take(error, row_of(number)))
        return (batch for batch in found if batch.num_rows)

    def parts(self, function: Callable[[pa.RecordBatch], Made], batch: pa.RecordBatch) -> Iterator[Made]:
        """The results of a function of batches. If it fails, and bad rows do not fail the job, it is called again.

        It then gets smaller and smaller parts of the batch, so that only the rows at fault are left out.
        """
        if not self.may_fail:
            return salvaged(
                lambda start, end: function(batch.slice(start, end - start)),
                0,
                batch.num_rows,
                lambda number, error: self.take(error, row_at(batch, number)),
            )
        try:
            return iter((function(batch),))
        except Exception as error:
            first = row_at(batch, 0) if batch.num_rows else None
            raise raised(self._what, error, for_batch(batch.num_rows, first)) from error


def row_at_fault(attempt: Callable[[pa.RecordBatch], Any], batch: pa.RecordBatch) -> Row | None:
    """The first row that something without side effects fails for; None if it fails for no single row."""
    found: list[int] = []
    for _ in salvaged(
        lambda start, end: attempt(batch.slice(start, end - start)),
        0,
        batch.num_rows,
        lambda number, _: found.append(number),
    ):
        pass
    return row_at(batch, found[0]) if found else None

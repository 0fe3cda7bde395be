"""Functions of a row and the state of its key, or of a batch and the states of its keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa

from snapline.contracts.dead_letters import OnError, is_about_row, salvaged
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform, empty_batch
from snapline.errors import UserCodeError
from snapline.operators.bad_rows import BadRows
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_batches import array_of, batch_of, column_of, row_at, rows_of, values_of
from snapline.state.arrays import Values
from snapline.state.evolution import Migrate
from snapline.state.groups import Groups
from snapline.state.state_types import StateType
from snapline.state.ttl import Ttl
from snapline.text import shortened

STATE = "state"
"""The name of the only state of these operators."""


class _Stateful(Operator):
    """Base of these operators: one value per key. `name` is the method the user called."""

    name: str

    migrate: Migrate | None = None
    """Converts restored states of another type."""

    def __init__(
        self,
        function: Callable[..., Any],
        state: StateType,
        ttl: Ttl | None,
        schema: pa.Schema,
        on_error: OnError = OnError.FAIL,
    ) -> None:
        self._function = function
        self._kind = state
        self._ttl = ttl
        self._schema = schema
        self._on_error = on_error

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{self.name} {context.uid!r}"
        self._keyed = keyed_state(context, self.name)
        kind = object if self._kind.arrow is None else self._kind.arrow
        self._state = self._keyed.value_state(STATE, kind, ttl=self._ttl, migrate=self.migrate)
        self._bad = BadRows(self, context, self._what, self._on_error)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if batch.num_rows:
            for made in self._bad.parts(self._updated, batch):
                if made is not None and made.num_rows:
                    self.context.emit(made)
            self._bad.flush()

    def _updated(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Update the states of a batch's keys. Returns the output. If this fails, no state has changed."""
        keys = self._keyed.keys([batch.column(name) for name in self.context.key_columns])
        made: pa.RecordBatch | None = None

        def updated(old: Values, groups: Groups) -> Values:
            nonlocal made
            values, made = self._apply(old, groups, batch)
            return values

        self._state.update(keys, updated)
        return made

    @abstractmethod
    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        """The new values of the distinct keys, and the output."""

    def _converted(self, values: Sequence[Any]) -> Values:
        """New values as the state stores them."""
        if self._kind.arrow is None:
            return values
        try:
            return array_of(values, self._kind.arrow)
        except UserCodeError as error:
            raise UserCodeError(f"{self._what} gave a state of another type: {error}") from error


class MapWithState(_Stateful):
    """Calls a function with the state of its key and each row; it returns the new state and a row or None.

    A row it fails for leaves the state as it was, unless the function has changed the old state in place.
    """

    name = "map_with_state"

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._failures: list[tuple[int, Exception]] = []

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not self._bad.may_fail:
            super().process(batch, input_index)
        elif batch.num_rows and (made := self._updated(batch)) is not None and made.num_rows:
            self.context.emit(made)

    def _updated(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        self._failures = []
        made = super()._updated(batch)
        # Only now: if the new states are refused, the batch is processed once more.
        for number, error in self._failures:
            self._bad.take(error, row_at(batch, number))
        return made

    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        values, results = _values(old), list[Any]()
        self._run(values, groups, batch, [rows_of(batch)], results)
        states = self._converted(values)
        numbers = [number for number, row in enumerate(results) if row is not None]
        made = [results[number] for number in numbers]
        return states, self._fitting(
            lambda start, end: batch_of(made[start:end], self._schema, self._what), numbers, batch
        )

    def _fitting(
        self, attempt: Callable[[int, int], pa.RecordBatch], numbers: Sequence[int], batch: pa.RecordBatch
    ) -> pa.RecordBatch | None:
        """The output without rows that do not fit; `numbers` are those of the rows that it was made of."""
        if not numbers:
            return None
        fail: Callable[[int, Exception], None] = lambda place, error: self._fail(batch, numbers[place], error)  # noqa: E731
        parts = [part for part in salvaged(attempt, 0, len(numbers), fail) if part.num_rows]
        if len(parts) < 2:
            return parts[0] if parts else None
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def _fail(self, batch: pa.RecordBatch, number: int, error: Exception) -> None:
        """A row has failed: raise the error, or remember it until the new states are written."""
        if self._bad.may_fail or not is_about_row(error):
            self._bad.take(error, row_at(batch, number))
        self._failures.append((number, error))

    def _run(
        self,
        values: list[Any],
        groups: Groups,
        batch: pa.RecordBatch,
        arguments: Sequence[Sequence[Any]],
        results: list[Any],
    ) -> None:
        """Call the function for each row in order with the current value of its key, and replace the value."""
        function, add, made = self._function, results.append, None
        indices = range(groups.count) if groups.indices is None else groups.indices.tolist()
        rows = zip(*arguments, strict=True) if arguments else repeat((), batch.num_rows)
        # An iterator: it stands behind the row that failed.
        left = zip(indices, arguments[0] if len(arguments) == 1 else rows, strict=True)
        while len(results) < batch.num_rows:
            try:
                if len(arguments) == 1:
                    # The most common case by far, in which unpacking would take a third of the time.
                    for index, argument in left:
                        made = function(values[index], argument)
                        values[index], result = made
                        add(result)
                else:
                    for index, row in left:
                        made = function(values[index], *row)
                        values[index], result = made
                        add(result)
            except Exception as error:
                self._fail(batch, len(results), self._blamed(error, made))
                add(None)

    def _blamed(self, error: Exception, made: Any) -> Exception:
        """The error to report: not that of unpacking the result, but what is wrong with the result."""
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            return error
        return UserCodeError(
            f"{self._what} gave {shortened(made)}; it must return two things: the new state, and a row or None"
        )


class MapColumnsWithState(MapWithState):
    """The same with some columns as arguments instead of a row, which is faster.

    Key columns are copied to the output. The function returns the other columns, `given`, as a tuple, or as a value if
    there is one; None emits no row. A state with fields is a tuple.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        state: StateType,
        ttl: Ttl | None,
        schema: pa.Schema,
        columns: tuple[str, ...],
        given: tuple[str, ...],
        on_error: OnError = OnError.FAIL,
    ) -> None:
        super().__init__(function, state, ttl, schema, on_error)
        self._columns = columns
        self._given = given

    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        kind = self._kind.arrow
        fields = list(kind) if kind is not None and pa.types.is_struct(kind) else []
        values, results = _tuples(old) if fields else _values(old), list[Any]()
        arguments = [values_of(batch.column(name)) for name in self._columns]
        self._run(values, groups, batch, arguments, results)
        states = self._structs(values, fields) if fields else self._converted(values)
        return states, self._fitting(
            lambda start, end: self._rows(batch.slice(start, end - start), results[start:end]),
            range(batch.num_rows),
            batch,
        )

    def _structs(self, values: list[Any], fields: list[pa.Field]) -> pa.Array:
        """New states, from tuples of their fields."""
        nothing = (None,) * len(fields)
        nulls = pa.array([value is None for value in values]) if None in values else None
        rows = values if nulls is None else [nothing if value is None else value for value in values]
        for row in rows:
            if type(row) is not tuple or len(row) != len(fields):
                raise UserCodeError(
                    f"{self._what} gave {shortened(row)} as state; with columns= it must return a tuple of "
                    f"{', '.join(field.name for field in fields)}, or None for no state"
                )
        try:
            arrays = [array_of(column, field.type) for column, field in zip(_turned(rows), fields, strict=True)]
        except UserCodeError as error:
            raise UserCodeError(f"{self._what} gave a state of another type: {error}") from error
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=nulls)

    def _rows(self, batch: pa.RecordBatch, results: list[Any]) -> pa.RecordBatch:
        schema, given = self._schema, self._given
        if len(given) == 1:
            array = column_of(results, schema.field(given[0]).with_nullable(True), self._what)
            kept = array.is_valid() if array.null_count else None
            arrays = [array if kept is None else array.drop_null()]
        else:
            kept = pa.array([result is not None for result in results]) if None in results else None
            rows = results if kept is None else [result for result in results if result is not None]
            if not rows:
                return empty_batch(schema)
            arrays = [
                column_of(column, schema.field(name), self._what)
                for name, column in zip(given, self._columns_of(rows), strict=True)
            ]
        named = dict(zip(given, arrays, strict=True))
        copied = {name: batch.column(name) for name in schema.names if name not in named}
        if kept is not None:
            copied = {name: column.filter(kept) for name, column in copied.items()}
        columns = [(named | copied)[name] for name in schema.names]
        return conform(pa.RecordBatch.from_arrays(columns, names=schema.names), schema, self._what)

    def _columns_of(self, rows: list[Any]) -> list[list[Any]]:
        wanted = len(self._given)
        for row in rows:
            if not isinstance(row, tuple) or len(row) != wanted:
                raise UserCodeError(
                    f"{self._what} gave {shortened(row)} as output of a row; it must return a tuple of {wanted}, for "
                    f"{', '.join(map(repr, self._given))}, or None for no row"
                )
        return _turned(rows)


class UpdateState(_Stateful):
    """Calls a function once per batch with the states of its distinct keys, their groups, and the batch."""

    name = "update_state"

    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        given = self._function(old, groups, batch)
        if not isinstance(given, tuple) or len(given) != 2:
            raise UserCodeError(
                f"{self._what} gave {shortened(given)}; it must return the new values of the keys and a batch, or None "
                "for no rows"
            )
        values, made = given
        if made is not None and not isinstance(made, pa.RecordBatch):
            raise UserCodeError(f"{self._what} gave {shortened(made)} as output; it must return a RecordBatch or None")
        return values, None if made is None else conform(made, self._schema, self._what)


def _values(old: Values) -> list[Any]:
    """Values of states as Python objects, in a new list."""
    return values_of(old) if isinstance(old, pa.Array) else list(old)


def _tuples(old: pa.StructArray) -> list[Any]:
    """States with fields as tuples."""
    rows = list(zip(*(values_of(old.field(number)) for number in range(old.type.num_fields)), strict=True))
    if not old.null_count:
        return rows
    return [row if is_there else None for row, is_there in zip(rows, old.is_valid().to_pylist(), strict=True)]


def _turned(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Tuples of equal length as columns; `zip` takes twice as long."""
    return [list(map(itemgetter(number), rows)) for number in range(len(rows[0]))] if rows else []

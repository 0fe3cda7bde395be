"""Functions of a row and the state of its key, or of a batch and the states of its keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.schemas import conform
from snapline.errors import SnaplineError, UserCodeError
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_batches import UserCode, array_of, batch_of, column_of, raised, rows_of, values_of
from snapline.state.arrays import Values
from snapline.state.groups import Groups
from snapline.state.state_types import StateType
from snapline.state.ttl import Ttl
from snapline.text import shortened

STATE = "state"
"""The name of the only state of these operators."""


class _Stateful(Operator):
    """Base of these operators: one value per key. `name` is the method the user called."""

    name: str

    def __init__(self, function: Callable[..., Any], state: StateType, ttl: Ttl | None, schema: pa.Schema) -> None:
        self._function = function
        self._kind = state
        self._ttl = ttl
        self._schema = schema

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._what = f"{self.name} {context.uid!r}"
        self._keyed = keyed_state(context, self.name)
        kind = object if self._kind.arrow is None else self._kind.arrow
        self._state = self._keyed.value_state(STATE, kind, ttl=self._ttl)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        keys = self._keyed.keys([batch.column(name) for name in self.context.key_columns])
        made: pa.RecordBatch | None = None

        def updated(old: Values, groups: Groups) -> Values:
            nonlocal made
            values, made = self._apply(old, groups, batch)
            return values

        self._state.update(keys, updated)
        if made is not None and made.num_rows:
            self.context.emit(made)

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
    """Calls a function with the state of its key and each row; it returns the new state and a row or None."""

    name = "map_with_state"

    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        values, results = _values(old), list[Any]()
        _run(self._what, self._function, values, groups, [rows_of(batch)], results)
        made = [row for row in results if row is not None]
        return self._converted(values), batch_of(made, self._schema, self._what) if made else None


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
    ) -> None:
        super().__init__(function, state, ttl, schema)
        self._columns = columns
        self._given = given

    def _apply(self, old: Values, groups: Groups, batch: pa.RecordBatch) -> tuple[Values, pa.RecordBatch | None]:
        kind = self._kind.arrow
        fields = list(kind) if kind is not None and pa.types.is_struct(kind) else []
        values, results = _tuples(old) if fields else _values(old), list[Any]()
        arguments = [values_of(batch.column(name)) for name in self._columns]
        _run(self._what, self._function, values, groups, arguments, results)
        return self._structs(values, fields) if fields else self._converted(values), self._rows(batch, results)

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

    def _rows(self, batch: pa.RecordBatch, results: list[Any]) -> pa.RecordBatch | None:
        schema, given = self._schema, self._given
        if len(given) == 1:
            array = column_of(results, schema.field(given[0]).with_nullable(True), self._what)
            kept = array.is_valid() if array.null_count else None
            arrays = [array if kept is None else array.drop_null()]
        else:
            kept = pa.array([result is not None for result in results]) if None in results else None
            rows = results if kept is None else [result for result in results if result is not None]
            if not rows:
                return None
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
        with UserCode(self._what):
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


def _run(
    what: str,
    function: Callable[..., Any],
    values: list[Any],
    groups: Groups,
    arguments: Sequence[Sequence[Any]],
    results: list[Any],
) -> None:
    """Call the function for each row in order with the current value of its key, and replace the value."""
    count = groups.count if groups.indices is None else len(groups.indices)
    indices = range(count) if groups.indices is None else groups.indices.tolist()
    add, made = results.append, None
    try:
        if len(arguments) == 1:
            # The most common case by far, in which unpacking would take a third of the time.
            for index, argument in zip(indices, arguments[0], strict=True):
                made = function(values[index], argument)
                values[index], result = made
                add(result)
        else:
            rows = zip(*arguments, strict=True) if arguments else repeat((), count)
            for index, row in zip(indices, rows, strict=True):
                made = function(values[index], *row)
                values[index], result = made
                add(result)
    except SnaplineError:
        raise
    except Exception as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise UserCodeError(
                f"{what} gave {shortened(made)} for a row; it must return two things: the new state, and a row or None"
            ) from error
        raise raised(what, error) from error

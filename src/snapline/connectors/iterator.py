"""A source that reads a list, or an iterable that a function returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Iterator as Iteration
from itertools import islice, pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.errors import ConfigurationError, RestoreError, UserCodeError
from snapline.text import explanation, shortened

Items: TypeAlias = Iterable[Any]
"""Rows as dicts or tuples, or whole RecordBatches."""

_BATCH_ITEMS = 4096
_SKIP_ITEMS = 65_536
_LONGEST_READ_S = 0.02
"""A slow iterable gives smaller batches: barriers wait for `read` to return."""
_INFER_ITEMS = 1000
_ADVICE = "give the schema of the rows, such as schema='user STRING, n BIGINT'"


class Iterator(Source):
    """The items of a list or tuple, or of the iterable that a function, such as a generator function, returns.

    An item is a row, as a dict or as a tuple in column order, or a whole RecordBatch. Missing keys of a dict are null.
    All subtasks read parts of a list; one subtask reads the iterable of a function. After a restart the function is
    called again and the items already read are skipped, so it must return the same items every time.

    schema: of the rows. None infers it from the first 1000 items of a list; a function always needs one.
    """

    is_bounded = True

    def __init__(self, items: Sequence[Any] | Callable[[], Items], schema: SchemaLike | None = None) -> None:
        if not (callable(items) or isinstance(items, list | tuple)):
            raise ConfigurationError(
                f"Iterator({shortened(items)}): a restart could not read it again; give a list or tuple, or a function "
                "without arguments that returns an iterable, such as a generator function"
            )
        if schema is None:
            if callable(items):
                raise ConfigurationError(f"Iterator(function): {_ADVICE}")
            schema = _inferred(items[:_INFER_ITEMS])
        self._items = items
        self._schema = checked_schema(schema, "Iterator")

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def splits(self, parallelism: int) -> Sequence[Split]:
        """Ranges of items; a function has one split, of unknown length."""
        if callable(self._items):
            return [[0, None]]
        number = len(self._items)
        ends = [number * part // parallelism for part in range(parallelism + 1)]
        return [[first, end] for first, end in pairwise(ends) if first < end]

    def reader(self, context: ReaderContext) -> SourceReader:
        return IteratorReader(self._items, self._schema, f"the iterator of the source {context.uid!r}")


class IteratorReader(SourceReader):
    """Reads its splits one after another. A position is the number of items read from the split."""

    def __init__(
        self,
        items: Sequence[Any] | Callable[[], Items],
        schema: pa.Schema,
        what: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._items = items
        self._schema = schema
        self._what = what
        self._clock = clock
        self._splits: list[tuple[Split, int]] = []
        self._open: Iteration[Any] | None = None
        self._to_skip = 0
        self._held: pa.RecordBatch | None = None

    def add_split(self, split: Split, position: Position) -> None:
        if not (isinstance(split, list) and len(split) == 2):
            raise RestoreError(f"{split!r} is not a split of Iterator; was the snapshot taken with another source?")
        self._splits.append((split, 0 if position is None else int(position)))
        if self._open is None:
            # A restore may bring splits of several subtasks: later items must not make rows of earlier ones late.
            self._splits.sort(key=lambda entry: int(entry[0][0]))

    def read(self) -> pa.RecordBatch | Wait | None:
        if not self._splits:
            return None
        split, position = self._splits[0]
        if self._open is None:
            self._open = self._opened(split, position)
        if self._to_skip:
            self._skip(self._open, position)
            return Wait(0)
        rows, batch, has_ended = self._next_items(self._open)
        self._splits[0] = (split, position + len(rows) + (batch is not None))
        if has_ended:
            self._splits.pop(0)
            self._open = None
        if rows:
            return _batch(rows, self._schema, self._what)
        return batch if batch is not None else Wait(0)

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        # An item taken out of the iterable but held back does not count as read.
        return list(self._splits)

    def _opened(self, split: Split, position: int) -> Iteration[Any]:
        first, end = split
        if not callable(self._items):
            return iter(self._items[first + position : end])
        self._to_skip = position
        try:
            return iter(self._items())
        except TypeError as error:
            raise UserCodeError(
                f"{self._what}: {error}; give a function without arguments that returns an iterable"
            ) from error

    def _skip(self, items: Iteration[Any], position: int) -> None:
        wanted = min(self._to_skip, _SKIP_ITEMS)
        skipped = sum(1 for _ in islice(items, wanted))
        if skipped < wanted:
            raise UserCodeError(
                f"{self._what} ended before item {position}, the position reached before the restart; it must return "
                "the same items every time"
            )
        self._to_skip -= skipped

    def _next_items(self, items: Iteration[Any]) -> tuple[list[Any], pa.RecordBatch | None, bool]:
        """Rows, or one batch, or neither at the end; and whether the end is reached."""
        if self._held is not None:
            batch, self._held = self._held, None
            return [], batch, False
        rows: list[Any] = []
        until_s = self._clock() + _LONGEST_READ_S
        for item in items:
            if isinstance(item, pa.RecordBatch):
                if not rows:
                    return rows, item, False
                self._held = item
                return rows, None, False
            rows.append(item)
            if len(rows) >= _BATCH_ITEMS or self._clock() >= until_s:
                return rows, None, False
        return rows, None, True


def _batch(rows: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Rows as a batch. Raises `UserCodeError` for rows that do not fit the schema."""
    try:
        if all(isinstance(row, dict) for row in rows):
            unknown = set().union(*rows) - set(schema.names)
            if unknown:
                raise UserCodeError(
                    f"{what} gave a row with {sorted(map(str, unknown))[0]!r}; its schema has "
                    f"{', '.join(map(repr, schema.names))}"
                )
            return pa.RecordBatch.from_pylist(rows, schema=schema)
        for row in rows:
            if not isinstance(row, tuple | list) or len(row) != len(schema):
                raise UserCodeError(
                    f"{what} gave {shortened(row)}; a row is a dict or a tuple with the {len(schema)} columns "
                    f"{', '.join(map(repr, schema.names))}, all of one kind"
                )
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UserCodeError(f"{what} gave rows that do not fit its schema: {explanation(error)}") from error


def _inferred(items: Sequence[Any]) -> pa.Schema:
    if items and isinstance(items[0], pa.RecordBatch):
        return items[0].schema
    if not items or not all(isinstance(item, dict) for item in items):
        raise ConfigurationError(
            f"Iterator: cannot infer a schema, the items are not dicts or RecordBatches; {_ADVICE}"
        )
    try:
        schema = pa.Table.from_pylist(list(items)).schema
    except pa.ArrowException as error:
        raise ConfigurationError(f"Iterator: cannot infer the column types: {error}; {_ADVICE}") from error
    for field in schema:
        if pa.types.is_null(field.type):
            raise ConfigurationError(f"Iterator: the column {field.name!r} has only nulls; {_ADVICE}")
    return schema

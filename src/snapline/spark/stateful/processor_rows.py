"""Input and output of a stateful processor: batches to rows or pandas frames by key, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from snapline.errors import UserCodeError
from snapline.operators.keyed_batches import decoded
from snapline.operators.row_batches import MAX_ROWS, values_of
from snapline.state.arrays import Ints
from snapline.text import explanation, shortened

Key: TypeAlias = tuple[Any, ...]


class KeyedRows:
    """The rows of a batch by key: `firsts` are the first rows of the keys, in order of appearance.

    `order` groups the rows by key; the rows of key i are from `starts[i]` to `starts[i + 1]`.
    """

    def __init__(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        columns = [batch.column(name) for name in key_columns]
        codes = _codes([decoded(column) for column in columns])
        _, first_rows, numbers = np.unique(codes, return_index=True, return_inverse=True)
        in_order = np.argsort(first_rows)
        rank = np.empty_like(in_order)
        rank[in_order] = np.arange(len(in_order))
        numbers = rank[numbers]
        self.firsts: Ints = first_rows[in_order]
        self.order: Ints = np.argsort(numbers, kind="stable")
        self.starts: list[int] = [0, *np.cumsum(np.bincount(numbers)).tolist()]
        self.columns = [column.take(pa.array(self.firsts)) for column in columns]

    def grouped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of the batch in the order of their keys."""
        is_grouped = bool((self.order[1:] > self.order[:-1]).all())
        return batch if is_grouped else batch.take(pa.array(self.order))


def in_zone(column: pa.Array, time_zone: str) -> pa.Array:
    """Returns a column of times with a zone in this zone; other columns as they are."""
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.tz is None or kind.tz == time_zone:
        return column
    return column.cast(pa.timestamp(kind.unit, time_zone))


def _codes(columns: list[pa.Array]) -> npt.NDArray[np.int64]:
    """Returns a number per row, equal for rows of the same key only."""
    codes: npt.NDArray[np.int64] = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # -0.0 and 0.0 are one key.
        is_float = pa.types.is_floating(column.type)
        encoded = (pc.add(column, pa.scalar(0, column.type)) if is_float else column).dictionary_encode()
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        # Renumbered, so that many columns cannot overflow.
        codes = np.unique(codes, return_inverse=True)[1]
    return codes


class Format(ABC):
    """Form of a processor's input and output rows."""

    def keys(self, columns: Sequence[pa.Array]) -> list[Key]:
        """Returns the keys whose values are in these columns."""
        return list(zip(*map(values_of, columns), strict=True))

    @abstractmethod
    def parts(self, batch: pa.RecordBatch, keyed: KeyedRows) -> Iterator[list[Any]]:
        """Yields per key the items for `handleInputRows`, and for each call of `handleInitialState`."""

    @abstractmethod
    def size(self, item: Any, what: str) -> int:
        """Returns how many rows an output item has. Raises `UserCodeError` if it is no such item."""

    @abstractmethod
    def batch(self, items: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
        """Returns output items as a batch. Raises `UserCodeError` if they do not fit the schema."""


class RowFormat(Format):
    """`pyspark.sql.Row`, with values as in Spark: structs are dicts, maps are lists of pairs.

    Times with a zone are in `time_zone`.
    """

    def __init__(self, time_zone: str = "UTC") -> None:
        self._time_zone = time_zone

    def parts(self, batch: pa.RecordBatch, keyed: KeyedRows) -> Iterator[list[Row]]:
        make = Row(*batch.schema.names)
        columns = [_plain_values(in_zone(column, self._time_zone)) for column in keyed.grouped(batch).columns]
        rows = [make(*values) for values in zip(*columns, strict=True)]
        return (rows[start:end] for start, end in pairwise(keyed.starts))

    def size(self, item: Any, what: str) -> int:
        if not isinstance(item, Row) or not hasattr(item, "__fields__"):
            raise UserCodeError(f"{what} returned {shortened(item)}; return named rows, such as Row(user='ann', n=1)")
        return 1

    def batch(self, items: list[Row], schema: pa.Schema, what: str) -> pa.RecordBatch:
        names = schema.names
        is_flat = not any(pa.types.is_nested(kind) for kind in schema.types)
        try:
            if is_flat and all(item.__fields__ == names for item in items):
                columns = [
                    pa.array(values, field.type) for values, field in zip(zip(*items, strict=True), schema, strict=True)
                ]
            else:
                # By name; as in Spark, missing columns are null and undeclared ones are dropped.
                made = pa.RecordBatch.from_pylist([item.asDict(recursive=True) for item in items], schema=schema)
                columns = made.columns
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UserCodeError(
                f"{what} returned rows that do not fit its schema, {described(schema)}: {explanation(error)}"
            ) from error
        return checked_batch(columns, schema, what)


def batches(items: Iterable[Any], form: Format, schema: pa.Schema, what: str) -> Iterator[pa.RecordBatch]:
    """Collects a processor's output into batches of some thousand rows; takes the items one by one."""
    waiting: list[Any] = []
    count = 0
    for item in items:
        waiting.append(item)
        count += form.size(item, what)
        if count >= MAX_ROWS:
            yield form.batch(waiting, schema, what)
            waiting, count = [], 0
    if count:
        yield form.batch(waiting, schema, what)


def _plain_values(column: pa.Array) -> list[Any]:
    column = decoded(column)
    values: list[Any] = column.to_pylist() if pa.types.is_nested(column.type) else values_of(column)
    return values


def checked_batch(columns: list[pa.Array], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Returns a batch of the schema. Raises `UserCodeError` for nulls in a column that may have none."""
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            raise UserCodeError(f"{what} returned nulls in the column {field.name!r}, which is not nullable")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def described(schema: pa.Schema) -> str:
    """Returns names and types, for messages."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""Input and output of a stateful processor: batches to rows or pandas frames by key, and back."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.keyed_batches import decoded
from snapline.operators.row_batches import MAX_ROWS, values_of
from snapline.state.arrays import Ints
from snapline.text import explanation, shortened

Key: TypeAlias = tuple[Any, ...]

FORMATS = ("rows", "pandas")


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
        self.keys: list[Key] = list(zip(*map(values_of, self.columns), strict=True))

    @property
    def is_grouped(self) -> bool:
        """Whether the rows are already grouped by key."""
        return bool((self.order[1:] > self.order[:-1]).all())


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
    """`pyspark.sql.Row`, with values as in Spark: structs are dicts, maps are lists of pairs."""

    def parts(self, batch: pa.RecordBatch, keyed: KeyedRows) -> Iterator[list[Row]]:
        batch = batch if keyed.is_grouped else batch.take(pa.array(keyed.order))
        make = Row(*batch.schema.names)
        columns = [_plain_values(column) for column in batch.columns]
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
                f"{what} returned rows that do not fit its schema, {_described(schema)}: {explanation(error)}"
            ) from error
        return _checked(columns, schema, what)


class PandasFormat(Format):
    """`pandas.DataFrame`, one per key. Timestamps are in UTC, without a time zone."""

    def __init__(self) -> None:
        self._pandas = pandas()

    def __reduce__(self) -> tuple[type[PandasFormat], tuple[()]]:
        return PandasFormat, ()

    def parts(self, batch: pa.RecordBatch, keyed: KeyedRows) -> Iterator[list[Any]]:
        batch = batch if keyed.is_grouped else batch.take(pa.array(keyed.order))
        columns = [
            column.cast(pa.timestamp(column.type.unit)) if _has_zone(column.type) else column
            for column in batch.columns
        ]
        frame = pa.Table.from_arrays(columns, names=batch.schema.names).to_pandas()
        return ([frame.iloc[start:end].reset_index(drop=True)] for start, end in pairwise(keyed.starts))

    def size(self, item: Any, what: str) -> int:
        if not isinstance(item, self._pandas.DataFrame):
            raise UserCodeError(f"{what} returned {shortened(item)}; with format='pandas' return pandas.DataFrame")
        return len(item)

    def batch(self, items: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
        filled = [item for item in items if len(item)]
        frame = filled[0] if len(filled) == 1 else self._pandas.concat(filled, ignore_index=True)
        if not all(isinstance(name, str) for name in frame.columns) and len(frame.columns) == len(schema):
            frame = frame.set_axis(schema.names, axis=1)
        missing = [name for name in schema.names if name not in frame.columns]
        if missing:
            raise UserCodeError(
                f"{what} returned frames without the column {missing[0]!r}; its schema is {_described(schema)}"
            )
        try:
            columns = [_from_pandas(frame[field.name], field.type) for field in schema]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UserCodeError(
                f"{what} returned frames that do not fit its schema, {_described(schema)}: {explanation(error)}"
            ) from error
        return _checked(columns, schema, what)


def make_format(name: str) -> Format:
    """Raises `ConfigurationError` if the format is unknown, or its package is not installed."""
    if name not in FORMATS:
        raise ConfigurationError(
            f"transform_with_state(format={name!r}): use 'rows' for a processor of pyspark.sql.Row, or 'pandas' for "
            "one of pandas.DataFrame"
        )
    return RowFormat() if name == "rows" else PandasFormat()


def pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ConfigurationError(
            f"transform_with_state(format='pandas') needs pandas, which cannot be imported here: {error}; install it "
            "where the driver and the executors run"
        ) from error


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


def _from_pandas(series: Any, kind: pa.DataType) -> pa.Array:
    if _has_zone(kind) and getattr(series.dtype, "tz", None) is None and series.dtype.kind == "M":
        return pa.Array.from_pandas(series, type=pa.timestamp(kind.unit)).cast(kind)
    array = pa.Array.from_pandas(series, type=kind)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _plain_values(column: pa.Array) -> list[Any]:
    column = decoded(column)
    values: list[Any] = column.to_pylist() if pa.types.is_nested(column.type) else values_of(column)
    return values


def _checked(columns: list[pa.Array], schema: pa.Schema, what: str) -> pa.RecordBatch:
    for column, field in zip(columns, schema, strict=True):
        if not field.nullable and column.null_count:
            raise UserCodeError(f"{what} returned nulls in the column {field.name!r}, which is not nullable")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

"""Pandas frames for a stateful processor, with the types that Spark gives them, and its frames as Arrow batches."""

from __future__ import annotations

import decimal
import importlib
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from snapline.errors import ConfigurationError, UserCodeError
from snapline.operators.keyed_batches import decoded
from snapline.spark.stateful.processor_rows import Format, Key, KeyedRows, RowFormat, checked_batch, described, in_zone
from snapline.spark.stateful.processor_settings import ProcessorSettings
from snapline.text import explanation, shortened

FORMATS = ("rows", "pandas")


def make_format(name: str, settings: ProcessorSettings | None = None) -> Format:
    """Raises `ConfigurationError` if the format is unknown, or its package is not installed."""
    settings = settings or ProcessorSettings()
    if name not in FORMATS:
        raise ConfigurationError(
            f"transform_with_state(format={name!r}): use 'rows' for a processor of pyspark.sql.Row, or 'pandas' for "
            "one of pandas.DataFrame"
        )
    return RowFormat(settings.time_zone) if name == "rows" else PandasFormat(settings)


def pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ImportError as error:
        raise ConfigurationError(
            f"transform_with_state(format='pandas') needs pandas, which cannot be imported here: {error}; install it "
            "where the driver and the executors run"
        ) from error


class PandasFormat(Format):
    """`pandas.DataFrame`, one or more per key, with the columns that Spark would make.

    Integers are int64, or float64 in a batch that has nulls in the column; floats are float64; times are
    datetime64[ns] without a zone; arrays are numpy arrays, maps and structs are dicts.
    """

    def __init__(self, settings: ProcessorSettings) -> None:
        self._settings = settings
        self._pandas = pandas()

    def __reduce__(self) -> tuple[type[PandasFormat], tuple[ProcessorSettings]]:
        return PandasFormat, (self._settings,)

    def keys(self, columns: Sequence[pa.Array]) -> list[Key]:
        return list(zip(*(self._series(column).tolist() for column in columns), strict=True))

    def parts(self, batch: pa.RecordBatch, keyed: KeyedRows) -> Iterator[list[Any]]:
        grouped = keyed.grouped(batch)
        columns = {name: self._series(column) for name, column in zip(batch.schema.names, grouped.columns, strict=True)}
        frame = self._pandas.concat(columns.values(), axis=1, keys=columns.keys())
        flags = [name for name, kind in zip(batch.schema.names, batch.schema.types, strict=True) if kind == pa.bool_()]
        mixed = [name for name in flags if columns[name].dtype == object]
        step = self._chunk_rows(batch)
        for start, end in pairwise(keyed.starts):
            yield [self._chunk(frame, at, min(at + step, end), mixed) for at in range(start, end, step)]

    def size(self, item: Any, what: str) -> int:
        if not isinstance(item, self._pandas.DataFrame):
            raise UserCodeError(f"{what} returned {shortened(item)}; with format='pandas' return pandas.DataFrame")
        return len(item)

    def batch(self, items: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
        # Only frames of the same types, since pandas would make floats of integers beside nulls.
        alike = groupby(filter(len, items), key=lambda frame: (list(frame.columns), list(frame.dtypes)))
        made = [self._same_batch(list(frames), schema, what) for _, frames in alike]
        return made[0] if len(made) == 1 else pa.concat_batches(made)

    def _same_batch(self, frames: list[Any], schema: pa.Schema, what: str) -> pa.RecordBatch:
        frame = frames[0] if len(frames) == 1 else self._pandas.concat(frames, ignore_index=True)
        if not all(isinstance(name, str) for name in frame.columns) and len(frame.columns) == len(schema):
            frame = frame.set_axis(schema.names, axis=1)
        missing = [name for name in schema.names if name not in frame.columns]
        if missing:
            raise UserCodeError(
                f"{what} returned frames without the column {missing[0]!r}; its schema is {described(schema)}"
            )
        columns = []
        for field in schema:
            series = frame[field.name]
            try:
                columns.append(self._array(series, field.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise UserCodeError(
                    f"{what} returned frames that do not fit its schema, {described(schema)}: Failed to convert the "
                    f"value of the column {field.name!r}, {series.dtype}, to {field.type}: {explanation(error)}"
                ) from error
        return checked_batch(columns, schema, what)

    def _chunk_rows(self, batch: pa.RecordBatch) -> int:
        rows: int = batch.num_rows if self._settings.frame_rows is None else self._settings.frame_rows
        if self._settings.frame_bytes is not None:
            row_bytes = max(batch.nbytes / max(batch.num_rows, 1), 1)
            rows = min(rows, int(-(-self._settings.frame_bytes // row_bytes)))
        return max(rows, 1)

    def _chunk(self, frame: Any, start: int, end: int, mixed: list[str]) -> Any:
        chunk = frame.iloc[start:end].reset_index(drop=True)
        for name in mixed:
            chunk[name] = chunk[name].infer_objects()
        return chunk

    def _series(self, column: pa.Array) -> Any:
        column = _local(decoded(column), self._settings.time_zone)
        kind = column.type
        if pa.types.is_integer(kind) and not column.null_count:
            return column.to_pandas().astype("int64" if pa.types.is_signed_integer(kind) else "uint64")
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return column.to_pandas().astype("float64")
        if pa.types.is_nested(kind) and _has_time(kind):
            give = _giver(kind, self._settings.time_zone, self._pandas)
            return self._pandas.Series([give(value) for value in column.to_pylist()], dtype=object)
        return column.to_pandas(
            date_as_object=True,
            coerce_temporal_nanoseconds=True,
            integer_object_nulls=True,
            maps_as_pydicts="strict",
        )

    def _array(self, series: Any, kind: pa.DataType) -> pa.Array:
        """Returns the values as Arrow, which never changes one; text becomes a number if it is one, as in Spark."""
        if pa.types.is_decimal(kind) and series.dtype.kind in "iu" and self._settings.int_to_decimal:
            series = series.map(decimal.Decimal)
        if pa.types.is_timestamp(kind) and kind.tz is not None and series.dtype.kind == "M":
            if getattr(series.dtype, "tz", None) is None:
                series = series.dt.tz_localize(self._settings.time_zone, ambiguous=False, nonexistent="shift_forward")
            return pa.Array.from_pandas(series).cast(kind)
        try:
            array = pa.Array.from_pandas(series, type=kind)
        except pa.ArrowInvalid:
            array = pa.Array.from_pandas(series).cast(kind)
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _local(column: pa.Array, time_zone: str) -> pa.Array:
    """Returns a column of times with a zone as the local times there."""
    if not pa.types.is_timestamp(column.type) or column.type.tz is None:
        return column
    return pc.local_timestamp(in_zone(column, time_zone))


def _has_time(kind: pa.DataType) -> bool:
    children = [kind.field(index).type for index in range(kind.num_fields)]
    return bool(pa.types.is_timestamp(kind)) or any(map(_has_time, children))


def _giver(kind: pa.DataType, time_zone: str, pandas: Any) -> Callable[[Any], Any]:
    """Returns the conversion of a nested value with times in it, from plain Python."""
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return lambda value: None if value is None else pandas.Timestamp(value)
        return lambda value: None if value is None else pandas.Timestamp(value).tz_convert(time_zone).tz_localize(None)
    if pa.types.is_struct(kind):
        gives = {field.name: _giver(field.type, time_zone, pandas) for field in kind}
        return lambda value: None if value is None else {name: give(value[name]) for name, give in gives.items()}
    if pa.types.is_map(kind):
        key, item = _giver(kind.key_type, time_zone, pandas), _giver(kind.item_type, time_zone, pandas)
        return lambda value: None if value is None else {key(one): item(other) for one, other in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if not _has_time(kind):
            element_kind = kind.value_type
            return lambda value: None if value is None else pa.array(value, element_kind).to_numpy(zero_copy_only=False)
        give = _giver(kind.value_type, time_zone, pandas)
        return lambda value: (
            None if value is None else pandas.Series([give(item) for item in value], dtype=object).to_numpy()
        )
    return _same


def _same(value: Any) -> Any:
    return value

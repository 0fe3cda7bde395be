"""Batches as pandas for Python functions of a query, and what they return as batches, by Spark's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.errors import UserCodeError
from snapline.text import explanation, shortened

_TIME_ZONE = "spark.sql.session.timeZone"
_FRAME_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SAFE = "spark.sql.execution.pandas.convertToArrowArraySafely"
_INT_TO_DECIMAL = "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FrameSettings:
    """Settings of Spark SQL that change frames. The defaults are Spark's, in UTC.

    Times in frames are local times of `time_zone`, a frame has at most `rows` rows, and with `is_safe` a value that
    does not fit its type is an error.
    """

    time_zone: str = "UTC"
    rows: int = 10_000
    is_safe: bool = False
    int_to_decimal: bool = False

    @classmethod
    def of_session(cls) -> FrameSettings:
        """The settings of the active session, if there is one."""
        session = SparkSession.getActiveSession()
        if session is None:
            return cls()
        rows = int(session.conf.get(_FRAME_ROWS) or 0)
        return cls(
            time_zone=session.conf.get(_TIME_ZONE) or "UTC",
            rows=rows if rows > 0 else _NO_LIMIT,
            is_safe=session.conf.get(_SAFE, "false") == "true",
            int_to_decimal=session.conf.get(_INT_TO_DECIMAL, "false") == "true",
        )


class Frames:
    """Converts between batches and pandas."""

    def __init__(self, settings: FrameSettings) -> None:
        self._settings = settings

    def series(self, batch: pa.RecordBatch) -> list[Any]:
        """A series for each column."""
        zone = self._settings.time_zone
        schema = pa.schema([field.with_type(_in_zone(field.type, zone)) for field in batch.schema])
        struct = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        made: list[Any] = ArrowBatchTransformer.to_pandas(conforming(batch.columns, schema), zone, struct)
        return made

    def frame(self, batch: pa.RecordBatch) -> Any:
        import pandas

        return pandas.concat(self.series(batch), axis=1)

    def frames(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The rows in frames of the size that Spark gives them."""
        step = self._settings.rows
        return (self.frame(batch.slice(at, step)) for at in range(0, batch.num_rows, step))

    def batch(self, frame: Any, schema: pa.Schema, what: str) -> pa.RecordBatch:
        """A frame that a function has returned. Raises `UserCodeError` if it does not fit the schema."""
        import pandas

        if not isinstance(frame, pandas.DataFrame):
            raise UserCodeError(f"{what} returned {shortened(frame)}; it must return pandas.DataFrame")
        if not len(frame.columns) and frame.empty:
            return _empty(schema)
        _check_columns(frame, schema, what)
        return self.columns(frame, schema, what)

    def columns(self, data: Any, schema: pa.Schema, what: str) -> pa.RecordBatch:
        """A frame, or a list of series, as a batch. Raises `UserCodeError` if it does not fit the schema."""
        struct = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        try:
            made = PandasToArrowConversion.convert(
                data,
                struct,
                timezone=self._settings.time_zone,
                safecheck=self._settings.is_safe,
                arrow_cast=True,
                assign_cols_by_name=True,
                int_to_decimal_coercion_enabled=self._settings.int_to_decimal,
            )
            return conforming(made.columns, schema)
        except (PySparkException, pa.ArrowException, TypeError, ValueError) as error:
            raise UserCodeError(
                f"{what} returned values that do not fit its schema, {_described(schema)}: {explanation(error)}"
            ) from error


def conforming(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of exactly this schema."""
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_zone(kind: pa.DataType, zone: str) -> pa.DataType:
    """The type with times in this zone, also those inside it, as Spark writes them for Python."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, zone)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in kind])
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(_in_zone(kind.key_type, zone), item.with_type(_in_zone(item.type, zone)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_zone(kind.value_type, zone)))
    return kind


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _check_columns(frame: Any, schema: pa.Schema, what: str) -> None:
    """By name if one of the names is text, otherwise by position, as in Spark."""
    names = list(frame.columns)
    if any(isinstance(name, str) for name in names):
        missing = [name for name in schema.names if name not in names]
        unknown = [name for name in names if name not in schema.names]
        if missing or unknown:
            problem = f"without the column {missing[0]!r}" if missing else f"with the column {unknown[0]!r}"
            raise UserCodeError(f"{what} returned a frame {problem}; its schema is {_described(schema)}")
    elif len(names) != len(schema):
        raise UserCodeError(
            f"{what} returned a frame with {len(names)} columns; its schema has {len(schema)}: {_described(schema)}"
        )


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)

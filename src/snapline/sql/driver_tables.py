"""Sinks of Spark that are for looking at results: memory, console, noop, and calls with rows."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, _create_row

from snapline.contracts.sink import Sink, SinkContext, SinkWriter


class MemoryTable:
    """Called with the rows of each checkpoint: keeps them on the driver, as the temporary view `name`."""

    def __init__(self, session: SparkSession, name: str, empty: DataFrame, *, is_complete: bool) -> None:
        self._session = session
        self._name = name
        self._is_complete = is_complete
        self._rows: pa.Table | None = None
        self._lock = threading.Lock()
        self._schema = empty.schema
        session.createDataFrame([], self._schema).createOrReplaceTempView(name)

    def __call__(self, dataframe: DataFrame, batch_id: int) -> None:
        rows = dataframe.toArrow().rename_columns(self._schema.names)
        with self._lock:
            is_first = self._rows is None or self._is_complete
            self._rows = rows if is_first else pa.concat_tables([self._rows, rows])
            self._session.createDataFrame(self._rows, self._schema).createOrReplaceTempView(self._name)


class ConsoleTable:
    """Called with the rows of each checkpoint: prints them as Spark does."""

    def __init__(self, rows: int, *, truncates: bool) -> None:
        self._rows = rows
        self._truncates = truncates

    def __call__(self, dataframe: DataFrame, batch_id: int) -> None:
        line = "-" * 43
        sys.stdout.write(f"{line}\nBatch: {batch_id}\n{line}\n")
        dataframe.show(self._rows, self._truncates)


class NoRows(Sink):
    """Drops all rows."""

    two_phase = False

    def writer(self, context: SinkContext) -> SinkWriter:
        return _NoRowsWriter()


class _NoRowsWriter(SinkWriter):
    def write(self, batch: pa.RecordBatch) -> None:
        """Nothing is kept."""

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return ()


class RowCalls:
    """Calls what a user gave to `foreach`, as Spark does: with a `Row`; `open` and `close` if it has them.

    `schema` has the columns of the query as Spark names them.
    """

    def __init__(self, given: Any, schema: StructType) -> None:
        self._given = given
        self._process = given.process if hasattr(given, "process") else given
        self._schema = schema
        self._error: Exception | None = None

    def open(self, context: SinkContext) -> None:
        self._is_open = True
        self._error = None
        if hasattr(self._given, "open"):
            self._is_open = bool(self._given.open(context.subtask, 0))

    def __call__(self, row: dict[str, Any]) -> None:
        if not self._is_open:
            return
        try:
            self._process(spark_value(row, self._schema))
        except Exception as error:
            self._error = error
            raise

    def close(self) -> None:
        if hasattr(self._given, "close"):
            self._given.close(self._error)


def spark_value(value: Any, kind: DataType) -> Any:
    """A value of Arrow as PySpark has it: structs are rows, maps are dicts, times are local without a zone."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        names = [field.name for field in kind]
        found = [spark_value(each, field.dataType) for each, field in zip(value.values(), kind, strict=True)]
        return _create_row(names, found)
    if isinstance(kind, ArrayType):
        return [spark_value(each, kind.elementType) for each in value]
    if isinstance(kind, MapType):
        return {spark_value(key, kind.keyType): spark_value(each, kind.valueType) for key, each in value}
    if isinstance(kind, TimestampType):
        return value.astimezone().replace(tzinfo=None)
    return value

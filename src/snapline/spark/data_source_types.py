"""What PySpark's data sources are given and give back: options, offsets, rows and types.

Values are converted by Spark's own rules, so that a data source gives the same rows here and there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from snapline.contracts.schemas import SchemaLike, checked_schema
from snapline.errors import ConfigurationError, UserCodeError
from snapline.spark.dataframe_types import readable_schema
from snapline.text import explanation, shortened


def made(kind: type[DataSource], options: Mapping[str, str]) -> DataSource:
    """A data source with options whose names may be in any case."""
    return kind(CaseInsensitiveDict(options))


def implements(kind: type[DataSource], method: str) -> bool:
    """Whether the class has this method itself: that of the base class only raises."""
    return getattr(kind, method) is not getattr(DataSource, method)


def is_arrow_writer(writer: Any) -> bool:
    return isinstance(writer, DataSourceStreamArrowWriter)


def is_message(given: Any) -> bool:
    return isinstance(given, WriterCommitMessage)


def is_partition(given: Any) -> bool:
    return isinstance(given, InputPartition)


def single_partition() -> InputPartition:
    """What a reader without partitions is given."""
    return InputPartition(None)


# Offsets.


def latest_offset(reader: Any, start: Any, *, everything: bool) -> Any:
    """The offset to read up to: within the reader's own limit, or of everything that is there."""
    if not inspect.signature(reader.latestOffset).parameters:
        return reader.latestOffset()  # as it was before Spark 4.2
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return reader.latestOffset(start, ReadAllAvailable() if everything else reader.getDefaultReadLimit())


def is_limited(reader: Any) -> bool:
    """Whether one range of offsets may be less than all that is there."""
    if not inspect.signature(reader.latestOffset).parameters:
        return False
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return not isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)


def stop_growing(reader: Any) -> bool:
    """Ask the reader to end at what is there now; whether it can."""
    prepare = getattr(reader, "prepareForTriggerAvailableNow", None)
    if prepare is None:
        return False
    prepare()
    return True


# Schemas and rows.


def schemas(given: SchemaLike | Any, what: str) -> tuple[pa.Schema, StructType]:
    """A schema as Arrow's and as Spark's; `ConfigurationError` if a stream cannot have it."""
    arrow = checked_schema(given, what)
    return arrow, given if isinstance(given, StructType) else from_arrow_schema(arrow, prefer_timestamp_ntz=True)


def written_schemas(schema: pa.Schema, what: str) -> tuple[pa.Schema, StructType]:
    """The schema that rows of this one are given to Spark with: types that it does not know are widened."""
    readable = readable_schema(schema, what)
    return readable, from_arrow_schema(readable, prefer_timestamp_ntz=True)


def rows_of(batch: pa.RecordBatch, schema: StructType) -> Sequence[Row]:
    """The rows of a batch, as Spark gives them to a writer."""
    rows: Sequence[Row] = ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)
    return rows


class RowConverter:
    """Makes batches of the rows that a reader gives: tuples, lists, or Rows, whose fields are taken by name."""

    def __init__(self, schema: pa.Schema, struct: StructType, what: str) -> None:
        self._schema = schema
        self._names = struct.fieldNames()
        self._what = what
        self._kinds = [field.dataType for field in struct.fields]
        self._converters = [_converter(kind) for kind in self._kinds]

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Raises `UserCodeError` if they do not fit the schema."""
        kinds = set(map(type, rows))
        if not all(issubclass(kind, tuple | list) for kind in kinds):
            wrong = next(row for row in rows if not isinstance(row, tuple | list))
            raise UserCodeError(f"{self._what} gave {shortened(wrong)}; a row must be a tuple, a list or a Row")
        if set(map(len, rows)) != {len(self._names)}:
            wrong = next(row for row in rows if len(row) != len(self._names))
            raise UserCodeError(
                f"{self._what} gave {shortened(wrong)}, a row with {len(wrong)} values; the schema has "
                f"{len(self._names)}: {', '.join(self._names)}"
            )
        if any(issubclass(kind, Row) for kind in kinds):
            rows = [self._in_order(row) for row in rows]
        columns = [self._column(number, list(map(itemgetter(number), rows))) for number in range(len(self._names))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _in_order(self, row: Any) -> Sequence[Any]:
        names = getattr(row, "__fields__", None)
        if names is None or list(names) == self._names:
            return row  # type: ignore[no-any-return]
        if set(names) != set(self._names):
            raise UserCodeError(
                f"{self._what} gave a Row with {', '.join(names)}; the schema has {', '.join(self._names)}"
            )
        return [row[name] for name in self._names]

    def _column(self, number: int, values: Sequence[Any]) -> pa.Array:
        field = self._schema.field(number)
        try:
            array = _plain_array(values, self._kinds[number], field.type)
            if array is None:
                convert = self._converters[number]
                array = pa.array(values if convert is None else list(map(convert, values)), field.type)
        except Exception as error:
            raise UserCodeError(
                f"{self._what} gave the column {field.name!r} other values than its schema says, {field.type}: "
                f"{explanation(error)}"
            ) from error
        if not field.nullable and array.null_count:
            raise UserCodeError(f"{self._what} gave None for {field.name!r}, which its schema says has no nulls")
        return array


def _converter(kind: DataType) -> Callable[[Any], Any] | None:
    if not LocalDataToArrowConversion._need_converter(kind):
        return None
    converter: Callable[[Any], Any] = LocalDataToArrowConversion._create_converter(kind)
    return converter


def _plain_array(values: Sequence[Any], kind: DataType, arrow: pa.DataType) -> pa.Array | None:
    """Text and bytes that Arrow takes as they are, without a call for each; None if there may be others."""
    if not isinstance(kind, StringType | BinaryType):
        return None
    try:
        array = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    if array.type == arrow:
        return array
    return array.cast(arrow) if pa.types.is_null(array.type) else None


def checked_kind(given: Any, what: str) -> type[DataSource]:
    """The class of a data source, or of an instance of one."""
    kind = given if isinstance(given, type) else type(given)
    if not issubclass(kind, DataSource):
        raise ConfigurationError(
            f"{what}({shortened(given)}): give a class derived from pyspark.sql.datasource.DataSource, or an instance"
        )
    return kind

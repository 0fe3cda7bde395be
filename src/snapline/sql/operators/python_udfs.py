"""Python functions of a query: called as Spark calls them, in the operator's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.spark.data_source_types import RowConverter, rows_of
from snapline.sql.expressions.frame import Frame, Value, as_array
from snapline.sql.expressions.registry import Evaluator, UnsupportedError, form
from snapline.sql.plans.python_functions import PythonFunction
from snapline.sql.plans.trees import Expression
from snapline.text import error_text

_ROWS: Final = (100, 101)
_PANDAS, _PANDAS_ITERATOR = 200, 204
_ARROW, _ARROW_ITERATOR = 250, 251


def loaded(function: PythonFunction) -> Any:
    """The function itself. Raises `UnsupportedError` if Spark has put it into a broadcast variable."""
    found = cloudpickle.loads(function.command)
    if not isinstance(found, tuple):
        raise UnsupportedError(
            "the function is larger than 1 MB, so Spark has put it into a broadcast variable; let it load its data "
            "when it is called"
        )
    return found[0]


@form("PythonUDF")
def python_udf(expression: Expression, compiled: Callable[[Expression], Evaluator]) -> Evaluator:
    """A scalar Python function over the values of its arguments."""
    kind, name = expression.arguments["evalType"], expression.arguments["name"]
    function = loaded(expression.arguments["func"])
    times = LocalTimes(expression.arguments.get("timeZoneId", "UTC"))
    arguments = [compiled(_unnamed(child)) for child in expression.children]
    calls = {
        _PANDAS: lambda arrays: times.array(function(*map(times.series, arrays)), expression.type),
        _PANDAS_ITERATOR: lambda arrays: times.array(
            _only(function(iter([_single(list(map(times.series, arrays)))])), name), expression.type
        ),
        _ARROW: lambda arrays: _as_type(function(*arrays), expression.type),
        _ARROW_ITERATOR: lambda arrays: _as_type(_only(function(iter([_single(arrays)])), name), expression.type),
    }
    if kind in _ROWS:
        call: Callable[[list[pa.Array]], pa.Array] = _RowFunction(function, name, expression)
    elif kind in calls:
        call = calls[kind]
    else:
        raise UnsupportedError(f"the Python function {name} is of a kind that is not supported here: {kind}")

    def evaluate(frame: Frame) -> Value:
        arrays = [as_array(argument(frame), frame.rows) for argument in arguments]
        if not frame.rows:
            return pa.array([], expression.type)
        try:
            result = call(arrays or [pa.nulls(frame.rows)])
        except (UserCodeError, UnsupportedError):
            raise
        except Exception as error:
            raise UserCodeError(f"the Python function {name} raised {error_text(error)}") from error
        if len(result) != frame.rows:
            raise UserCodeError(f"the Python function {name} gave {len(result)} values for {frame.rows} rows")
        return result

    return evaluate


def _unnamed(argument: Expression) -> Expression:
    return argument.children[0] if argument.kind == "NamedArgumentExpression" else argument


class _RowFunction:
    """A function of the values of one row."""

    def __init__(self, function: Callable[..., Any], name: str, expression: Expression) -> None:
        self._function = function
        fields = [pa.field(f"_{n}", child.type) for n, child in enumerate(expression.children)]
        self._schema = pa.schema(fields)
        self._struct = from_arrow_schema(self._schema, prefer_timestamp_ntz=True)
        result = pa.schema([pa.field("result", expression.type)])
        self._result = RowConverter(
            result, from_arrow_schema(result, prefer_timestamp_ntz=True), f"the function {name}"
        )

    def __call__(self, arrays: list[pa.Array]) -> pa.Array:
        if not self._schema:
            results = [(self._function(),) for _ in range(len(arrays[0]))]
        else:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            results = [(self._function(*row),) for row in rows_of(batch, self._struct)]
        return self._result.batch(results).column(0)


class LocalTimes:
    """Columns as pandas, with times of a zone as Spark gives them to functions: local ones without a zone."""

    def __init__(self, zone: str) -> None:
        self._zone = zone

    def series(self, array: pa.Array) -> Any:
        if pa.types.is_timestamp(array.type) and array.type.tz:
            array = pc.local_timestamp(array.cast(pa.timestamp(array.type.unit, self._zone)))
        return array.to_pandas(date_as_object=True)

    def array(self, series: Any, kind: pa.DataType) -> pa.Array:
        if pa.types.is_timestamp(kind) and kind.tz and getattr(series.dt, "tz", None) is None:
            series = series.dt.tz_localize(self._zone, ambiguous=False, nonexistent="shift_forward")
        return _as_type(pa.Array.from_pandas(series, type=kind), kind)


def _as_type(array: Any, kind: pa.DataType) -> pa.Array:
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array if array.type == kind else array.cast(kind)


def _single(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def _only(results: Iterator[Any], name: str) -> Any:
    found = list(results)
    if len(found) != 1:
        raise UserCodeError(f"the Python function {name} gave {len(found)} results for one batch")
    return found[0]


class MapFunction(Operator):
    """A function of an iterator of batches (`mapInPandas`, `mapInArrow`), called for each batch by itself."""

    def __init__(
        self, function: PythonFunction, names: Sequence[str], schema: pa.Schema, *, pandas: bool, time_zone: str = "UTC"
    ) -> None:
        self._command = function
        self._times = LocalTimes(time_zone)
        self._names = list(names)
        self._schema = schema
        self._pandas = pandas

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._function = loaded(self._command)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if not batch.num_rows:
            return
        given = batch.rename_columns(self._names)
        for made in self._function(iter([self._frame(given) if self._pandas else given])):
            rows = self._rows(made)
            if rows.num_rows:
                self.context.emit(rows)

    def _frame(self, batch: pa.RecordBatch) -> Any:
        import pandas

        return pandas.DataFrame(
            {name: self._times.series(batch.column(n)) for n, name in enumerate(batch.schema.names)}
        )

    def _rows(self, made: Any) -> pa.RecordBatch:
        if not self._pandas:
            arrays = [_as_type(made.column(name), self._schema.field(name).type) for name in self._schema.names]
        else:
            arrays = [self._times.array(made[field.name], field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

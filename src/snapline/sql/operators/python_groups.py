"""Python functions over whole groups: called when event time has brought a group to its end."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from snapline.contracts.operator import Operator, OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import RowType
from snapline.operators.keyed_batches import keyed_state
from snapline.operators.row_batches import raised
from snapline.sql.operators.python_udfs import loaded
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.sql.operators.udf_frames import Frames, FrameSettings, conforming
from snapline.sql.plans.python_functions import PythonFunction
from snapline.state.timers import TimeDomain
from snapline.text import shortened

PANDAS_GROUPS: Final = {201: False, 216: True}
"""Functions of a group as pandas: whether of an iterator of frames."""

ARROW_GROUPS: Final = {209: False, 215: True}
"""The same as Arrow tables, or batches."""

PANDAS_AGGREGATES: Final = {202: False, 217: True}
ARROW_AGGREGATES: Final = {252: False, 254: True}
"""Functions of the values of a group that give one value: whether of an iterator."""

_DUE_GROUPS = 4096
"""About how many groups are read at once."""


class GroupCall(ABC):
    """What is computed of the rows of one group."""

    @abstractmethod
    def open(self) -> None:
        """Called once in each subtask, before anything else."""

    @abstractmethod
    def rows(self, group: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The output for a group, whose rows these are, in the order in which they came."""


class CompleteGroups(Operator):
    """Keeps the rows of each group until the watermark has passed its end, then emits what `call` makes of them.

    The `time` column says when a group ends: a window, whose end counts, or a time. `schema` is that of the input,
    keyed by the key columns of a `KeyLayout`. Rows of groups that have ended are late and dropped; those without a time
    belong to groups that never end, and are dropped too.
    """

    def __init__(self, schema: pa.Schema, key_columns: Sequence[str], time: str, call: GroupCall) -> None:
        self._kept = RowType(schema, key_columns)
        self._schema = pa.schema(self._kept.fields)
        self._time = time
        self._call = call

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "groups")
        self._rows = self._keyed.list_state("rows", self._kept.type)
        self._timers = self._keyed.timers()
        self._saved = SavedWatermark(context)
        self._call.open()

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        times_ms, valid = end_times_ms(batch.column(self._time))
        has_time = valid.to_numpy(zero_copy_only=False)
        is_late = (times_ms <= self._saved.ms) & has_time
        self.late_rows += int(np.count_nonzero(is_late))
        taken = np.flatnonzero(has_time & ~is_late)
        if not taken.size:
            return
        if len(taken) < batch.num_rows:
            batch, times_ms = batch.take(pa.array(taken)), times_ms[taken]
        keys = self._keyed.keys(self._kept.keys(batch))
        self._rows.append(keys, self._kept.rows(batch))
        self._timers.register_all(TimeDomain.EVENT, keys, times_ms)

    def watermark(self, timestamp_ms: int) -> None:
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_GROUPS)) is not None:
            owners, values = self._rows.elements(due.rows)
            columns = pa.RecordBatch.from_arrays(self._kept.arrays(values, len(values)), schema=self._schema)
            ends = np.searchsorted(owners, np.arange(len(due.rows) + 1)).tolist()
            self._rows.delete(due.rows)
            for start, end in pairwise(ends):
                for made in self._call.rows(columns.slice(start, end - start)):
                    if made.num_rows:
                        self.context.emit(made)


class FunctionOfGroup(GroupCall):
    """`applyInPandas` and `applyInArrow`: the first `keys` columns are the group, the others the function's rows.

    `names` are those that the function sees, of all columns. `schema` is that of its result.
    """

    def __init__(
        self,
        function: PythonFunction,
        name: str,
        kind: int,
        names: Sequence[str],
        keys: int,
        schema: pa.Schema,
        settings: FrameSettings,
    ) -> None:
        self._packed = function
        self._name = name
        self._kind = kind
        self._names = list(names)
        self._keys = keys
        self._schema = schema
        self._settings = settings

    def open(self) -> None:
        self._function = loaded(self._packed)
        self._frames = Frames(self._settings)
        self._takes_key = len(inspect.getfullargspec(self._function).args) > 1

    def rows(self, group: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        named = group.rename_columns(self._names)
        data = named.select(list(range(self._keys, named.num_columns)))
        key = named.slice(0, 1).select(list(range(self._keys)))
        try:
            if self._kind in PANDAS_GROUPS:
                yield from self._of_pandas(key, data)
            else:
                yield from self._of_arrow(key, data)
        except UserCodeError:
            raise
        except Exception as error:
            raise raised(self._name, error, f", for the group {shortened(key.to_pylist()[0])}") from error

    def _of_pandas(self, key: pa.RecordBatch, data: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = tuple(series.iloc[0] for series in self._frames.series(key)) if self._takes_key else ()
        if PANDAS_GROUPS[self._kind]:
            given: Any = self._called(values, self._frames.frames(data))
        else:
            given = [self._called(values, self._frames.frame(data))]
        for frame in given:
            yield self._frames.batch(frame, self._schema, self._name)

    def _of_arrow(self, key: pa.RecordBatch, data: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        values = tuple(column[0] for column in key.columns) if self._takes_key else ()
        if ARROW_GROUPS[self._kind]:
            given: Any = self._called(values, iter([data]))
        else:
            given = [self._called(values, pa.Table.from_batches([data]))]
        for made in given:
            for batch in made.to_batches() if isinstance(made, pa.Table) else [made]:
                yield conforming([batch.column(name) for name in self._schema.names], self._schema)

    def _called(self, key: tuple[Any, ...], rows: Any) -> Any:
        return self._function(key, rows) if self._takes_key else self._function(rows)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A Python function of columns of a group: `arguments` are their positions, with the name if given by name."""

    function: PythonFunction
    name: str
    kind: int
    arguments: tuple[tuple[str | None, int], ...]
    result: pa.DataType


class FunctionsOfGroup(GroupCall):
    """Aggregate functions in Python; emits the first `keys` columns and the results: `schema`."""

    def __init__(
        self, functions: Sequence[AggregateFunction], keys: int, schema: pa.Schema, settings: FrameSettings
    ) -> None:
        self._specs = tuple(functions)
        self._keys = keys
        self._schema = schema
        self._settings = settings

    def open(self) -> None:
        self._frames = Frames(self._settings)
        self._functions: list[Callable[..., Any]] = [loaded(spec.function) for spec in self._specs]

    def rows(self, group: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        columns = [group.column(number).slice(0, 1) for number in range(self._keys)]
        for spec, function in zip(self._specs, self._functions, strict=True):
            columns.append(self._result(spec, function, group))
        yield conforming(columns, self._schema)

    def _result(self, spec: AggregateFunction, function: Callable[..., Any], group: pa.RecordBatch) -> pa.Array:
        chosen = group.select([number for _, number in spec.arguments])
        is_pandas = spec.kind in PANDAS_AGGREGATES
        given = self._frames.series(chosen) if is_pandas else chosen.columns
        field = pa.schema([pa.field(spec.name, spec.result)])
        try:
            if (PANDAS_AGGREGATES if is_pandas else ARROW_AGGREGATES)[spec.kind]:
                value = function(iter([given[0] if len(given) == 1 else tuple(given)]))
            else:
                named = {name: value for (name, _), value in zip(spec.arguments, given, strict=True) if name}
                plain = [value for (name, _), value in zip(spec.arguments, given, strict=True) if not name]
                value = function(*plain, **named)
        except Exception as error:
            raise raised(spec.name, error) from error
        if not is_pandas:
            return pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], spec.result)
        import pandas

        return self._frames.columns([pandas.Series([value])], field, spec.name).column(0)

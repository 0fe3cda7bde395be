"""Window functions over rows that come in an order and are final: each row is emitted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import Operator, OperatorContext
from snapline.operators.changes.over_changes import output_schema
from snapline.operators.changes.over_frames import Frame, SortedRows, in_order
from snapline.operators.changes.over_functions import OverFunction, OverKind, computed
from snapline.operators.changes.range_aggregates import PreparedFold, range_aggregate
from snapline.operators.changes.rank_order import SortColumn
from snapline.operators.changes.sequence_numbers import SequenceNumbers
from snapline.operators.event_time import SavedWatermark
from snapline.operators.kept_rows import RowType, kept_column
from snapline.operators.keyed_batches import keyed_state
from snapline.sql.operators.sql_projection import end_times_ms
from snapline.state.arrays import Bools, Ints
from snapline.state.batch_keys import Rows
from snapline.state.timers import TimeDomain

_DUE_TIMES = 65_536
"""About how many times of keys come to an end at once."""
_RANKS = (OverKind.ROW_NUMBER, OverKind.RANK, OverKind.DENSE_RANK)


def runs_in_order(function: OverFunction, schema: pa.Schema) -> bool:
    """Whether a function needs no later rows, and of earlier ones only some or what stands for them."""
    if function.kind in _RANKS:
        return True
    if function.kind is OverKind.LAG:
        return function.number >= 0 and not function.ignore_nulls
    if function.kind not in (OverKind.NTH_VALUE, OverKind.AGGREGATE) or function.frame.looks_ahead:
        return False
    if function.frame.lower is not None:
        return True
    return function.aggregate is not None and range_aggregate(function.aggregate, schema).seed_type is not None


class OverInOrder(Operator):
    """Emits each row once, with the results of window functions that all `runs_in_order`.

    With `time`, the first of the columns `order`, rows wait until the watermark has passed their time, and are taken
    in that order; rows that come after that, and rows without a time, are dropped as late. Without, rows are taken in
    order of arrival, and `order` is empty. The input has inserts only and is keyed by the `key_columns` of a
    `KeyLayout` of the partition columns; emits the columns of `output_schema`, without kinds of change.

    State holds the rows that wait, those earlier ones that a frame or a lag may still see, and for frames without
    start what their earlier rows have come to.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key_columns: Sequence[str],
        order: Sequence[SortColumn],
        functions: Mapping[str, OverFunction],
        *,
        time: str | None,
    ) -> None:
        self._key_columns = tuple(key_columns)
        self._order = tuple(order)
        self._functions = dict(functions)
        self._time = time
        self._rows = RowType(schema, self._key_columns)
        self._schema = pa.schema(self._rows.fields)
        for function in self._functions.values():
            function.check(self._schema)
        self.output_schema = output_schema(schema, key_columns, functions)
        self._kept_rows = max((_rows_back(function) for function in self._functions.values()), default=0)
        self._kept_distance = max((_distance_back(function) for function in self._functions.values()), default=0)
        self._aggregates = {
            name: range_aggregate(function.aggregate, self._schema)
            for name, function in self._functions.items()
            if function.aggregate is not None
        }
        seeds = [
            pa.field(f"{number}/{aggregate.kind}", aggregate.seed_type)
            for number, (name, aggregate) in enumerate(self._aggregates.items())
            if self._functions[name].frame.lower is None
        ]
        self._seeded = [name for name in self._aggregates if self._functions[name].frame.lower is None]
        self._carry = pa.struct([("rows", pa.int64()), ("peers", pa.int64()), *seeds])

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._keyed = keyed_state(context, "window")
        self._numbers = SequenceNumbers(self._keyed, "next")
        self._history = self._keyed.map_state("history", pa.int64(), self._rows.type)
        self._carried = self._keyed.value_state("carried", self._carry)
        if self._time is not None:
            # By time, so that only rows that are due are read.
            self._waiting = self._keyed.map_state("waiting", pa.int64(), self._rows.type, namespace=pa.int64())
            self._timers = self._keyed.timers(pa.int64())
            self._saved = SavedWatermark(context)

    # Rows come.

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._time is not None:
            batch = self._in_time(batch, self._time)
        if not batch.num_rows:
            return
        every = self._keyed.keys([kept_column(batch.column(name)) for name in self._key_columns])
        lasts, groups = self._keyed.distinct(every)
        keys = every if len(lasts) == len(every) else every.take(lasts)
        numbers, rows = self._numbers.take(keys, groups), self._rows.rows(batch)
        if self._time is None:
            self._advance(keys, groups, numbers, rows)
            return
        times_ms = pa.array(end_times_ms(batch.column(self._time))[0])
        self._waiting.put_all(every, pa.array(numbers), rows, times_ms)
        self._timers.register_all(TimeDomain.EVENT, every, times_ms, times_ms)

    def _in_time(self, batch: pa.RecordBatch, time: str) -> pa.RecordBatch:
        times_ms, valid = end_times_ms(batch.column(time))
        is_late = (times_ms <= self._saved.ms) | ~valid.to_numpy(zero_copy_only=False)
        if not is_late.any():
            return batch
        self.late_rows += int(np.count_nonzero(is_late))
        return batch.filter(pa.array(~is_late))

    def watermark(self, timestamp_ms: int) -> None:
        if self._time is None:
            return
        self._saved.advance(timestamp_ms)
        while (due := self._timers.due(TimeDomain.EVENT, self._saved.ms, _DUE_TIMES)) is not None:
            lasts, groups = self._keyed.distinct(due.rows)
            places, numbers, rows = self._waiting.entries(due.rows, due.namespaces)
            self._waiting.delete(due.rows, due.namespaces)
            self._advance(due.rows.take(lasts), groups[places], numbers.to_numpy(), rows)

    # Rows are final.

    def _advance(self, keys: Rows, groups: Ints, numbers: Ints, rows: pa.Array) -> None:
        """Emit rows of distinct keys, and keep what later rows will need of them."""
        old_groups, old_numbers, old_rows = self._history.entries(keys)
        every = pa.concat_arrays([old_rows, rows])
        columns = dict(zip(self._rows.columns, self._rows.arrays(every, len(every)), strict=True))
        places, ordered = in_order(
            np.concatenate([old_groups, groups]),
            columns,
            self._order,
            np.concatenate([old_numbers.to_numpy(), numbers]),
        )
        turn = _Turn(keys, ordered, places, places < len(old_groups), self._carried.take(keys))
        folds = self._folds(turn)
        self._emit(turn, folds)
        firsts = self._first_kept(turn)
        is_kept = np.arange(len(ordered)) >= firsts[ordered.groups]
        gone, more = np.flatnonzero(~is_kept & turn.is_old), np.flatnonzero(is_kept & ~turn.is_old)
        sequence = pa.concat_arrays([old_numbers, pa.array(numbers)]).take(pa.array(places))
        self._change_history(turn, gone, sequence, pa.nulls(len(gone), self._rows.type))
        self._change_history(turn, more, sequence, every.take(pa.array(places[more])))
        self._carry_on(turn, firsts, folds)

    def _folds(self, turn: _Turn) -> dict[str, PreparedFold]:
        """The aggregates of frames without start, with what earlier rows have come to."""
        made: dict[str, PreparedFold] = {}
        for name, seeds in zip(self._seeded, turn.carried.flatten()[2:], strict=True):
            ready = self._aggregates[name].prepared(turn.ordered.columns, turn.ordered.groups, seeds)
            assert isinstance(ready, PreparedFold)
            made[name] = ready
        return made

    def _emit(self, turn: _Turn, folds: Mapping[str, PreparedFold]) -> None:
        """Emit the rows that are new, by time or as they came."""
        ordered = turn.ordered
        results = []
        for name, function in self._functions.items():
            if name in folds:
                result = folds[name].results(*ordered.ranges(function.frame), ordered.groups).cast(function.result)
            else:
                result = computed(function, ordered, self._schema)
            if function.kind in _RANKS:
                before = turn.carried.flatten()[1 if function.kind is OverKind.DENSE_RANK else 0]
                earlier = pc.fill_null(before, 0).take(pa.array(ordered.groups))
                result = pc.add(result, earlier.cast(result.type))
            results.append(result)
        at = np.flatnonzero(~turn.is_old)
        order = turn.places
        if self._time is not None:
            order = ordered.columns[self._time].cast(pa.int64()).to_numpy(zero_copy_only=False)
        at = at[np.argsort(order[at], kind="stable")]
        arrays = [array.take(pa.array(at)) for array in (*ordered.columns.values(), *results)]
        self.context.emit(pa.RecordBatch.from_arrays(arrays, schema=self.output_schema))

    def _first_kept(self, turn: _Turn) -> Ints:
        """The first row of each key that later rows may see."""
        firsts = turn.ends - self._kept_rows
        if self._kept_distance:
            frame_starts, _ = turn.ordered.ranges(Frame(False, -self._kept_distance, 0))
            firsts = np.minimum(firsts, frame_starts[turn.ends - 1])
        return np.maximum(firsts, turn.starts)

    def _change_history(self, turn: _Turn, rows: Ints, sequence: pa.Array, values: pa.Array) -> None:
        if rows.size:
            owners = turn.keys.take(turn.ordered.groups[rows])
            self._history.put_all(owners, sequence.take(pa.array(rows)), values)

    def _carry_on(self, turn: _Turn, firsts: Ints, folds: Mapping[str, PreparedFold]) -> None:
        """Note what the rows before the first one that is kept have come to."""
        starts, ends = turn.starts, turn.ends
        seen, peers = (pc.fill_null(part, 0).to_numpy(zero_copy_only=False) for part in turn.carried.flatten()[:2])
        flags = np.concatenate([[0], np.cumsum(turn.ordered.is_first_peer)])
        # The first row that is kept counts again next time, even if one equal to it is not kept.
        passed = np.where(firsts < ends, flags[np.minimum(firsts + 1, ends)] - 1, flags[ends]) - flags[starts]
        seeds = [fold.seeds(starts, firsts, np.arange(len(starts))) for fold in folds.values()]
        arrays = [pa.array(seen + firsts - starts), pa.array(peers + passed), *seeds]
        self._carried.put(turn.keys, pa.StructArray.from_arrays(arrays, fields=list(self._carry)))


@dataclass(frozen=True, slots=True)
class _Turn:
    """Rows of distinct keys, those that are kept and those that are new, in order.

    `places` says where each stood before it was sorted, `is_old` which have been emitted, and `carried` what the rows
    before them have come to, for each key.
    """

    keys: Rows
    ordered: SortedRows
    places: Ints
    is_old: Bools
    carried: pa.Array

    @property
    def starts(self) -> Ints:
        """The first row of each key."""
        return np.searchsorted(self.ordered.groups, np.arange(len(self.keys)))

    @property
    def ends(self) -> Ints:
        """The one after the last row of each key."""
        return np.searchsorted(self.ordered.groups, np.arange(len(self.keys)), side="right")


def _rows_back(function: OverFunction) -> int:
    """How many rows before a row its result may depend on."""
    if function.kind is OverKind.LAG:
        return function.number
    if function.kind in _RANKS or not function.frame.by_rows:
        return 0
    return max(-int(bound) for bound in (function.frame.lower, function.frame.upper, 0) if bound is not None)


def _distance_back(function: OverFunction) -> int | float:
    """How far back in the order."""
    if function.kind in _RANKS or function.kind is OverKind.LAG or function.frame.by_rows:
        return 0
    return max(-bound for bound in (function.frame.lower, function.frame.upper, 0) if bound is not None)

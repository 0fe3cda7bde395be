"""Event time of the rows of a join: columns of timestamps, or of whole numbers of milliseconds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.errors import UserCodeError
from snapline.state.operator_state import OperatorList
from snapline.state.stable_hash import Ints
from snapline.types import MAX_WATERMARK

_TICKS = {"s": 1, "ms": 1, "us": 1000, "ns": 1_000_000}
"""In a millisecond; seconds are counted in milliseconds."""


def ticks_per_ms(kind: pa.DataType) -> int:
    """How finely a column tells time."""
    return _TICKS[kind.unit] if pa.types.is_timestamp(kind) else 1


def times(column: pa.Array, ticks: int, what: str) -> Ints:
    """Times of rows in so many ticks for each millisecond; rounded down if those of the column are finer."""
    if column.null_count:
        raise UserCodeError(
            f"{what} got a row without a time; filter such rows out, or fill in a time, before the join"
        )
    kind = column.type
    per_second = 1000 * ticks
    own = (1 if kind.unit == "s" else 1000 * _TICKS[kind.unit]) if pa.types.is_timestamp(kind) else 1000
    try:
        numbers = column.cast(pa.int64())
        if own < per_second:
            numbers = pc.multiply_checked(numbers, per_second // own)
    except pa.ArrowInvalid as error:
        raise UserCodeError(f"{what} got a time that is too far away: {error}") from error
    result: Ints = numbers.to_numpy()
    return result // (own // per_second) if own > per_second else result


class SavedWatermark:
    """How far event time has come, also in the life before a restore, so that the same rows are late."""

    def __init__(self, context: OperatorContext) -> None:
        self._saved: OperatorList = context.states.operator.union_list_state("watermark", int)
        # Subtasks may have been further than one another, and what one of them had is now anywhere.
        self.ms: int = min(self._saved, default=-MAX_WATERMARK)

    def advance(self, timestamp_ms: int) -> None:
        self.ms = max(self.ms, timestamp_ms)

    def save(self) -> None:
        """Into the state, for the snapshot."""
        # The end of all data is none if the job goes on from there with more. That there was none yet counts: for the
        # rows such a subtask has not read yet, which are anywhere afterwards, nothing is late.
        self._saved.set([self.ms] if self.ms != MAX_WATERMARK else [])

"""Event time in columns of timestamps or of whole milliseconds, and the watermark that checkpoints keep."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.errors import UserCodeError
from snapline.state.arrays import Ints
from snapline.state.operator_state import OperatorList
from snapline.types import MAX_WATERMARK

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def ticks_per_ms(kind: pa.DataType) -> int:
    """The resolution of a time column in ticks per millisecond, at least 1."""
    return max(per_second(kind) // 1000, 1)


def times(column: pa.Array, name: str, what: str, ticks: int = 1) -> Ints:
    """The times in a column, in ticks of which a millisecond has `ticks`; finer times are rounded down.

    Raises `UserCodeError` for nulls and for times out of range; `what` is the operator and `name` the column in it.
    """
    if column.null_count:
        raise UserCodeError(f"{what}: the time column {name!r} has nulls; filter such rows out, or fill in a time")
    own, wanted = per_second(column.type), 1000 * ticks
    try:
        numbers = column.cast(pa.int64())
        if own < wanted:
            numbers = pc.multiply_checked(numbers, wanted // own)
    except pa.ArrowInvalid as error:
        raise UserCodeError(f"{what}: the time column {name!r} has times out of range: {error}") from error
    result: Ints = numbers.to_numpy()
    return result // (own // wanted) if own > wanted else result


def newest_time_ms(column: pa.Array) -> int | None:
    """Returns the greatest time in a column, in milliseconds, or None if all are null."""
    kind = column.type
    newest: int | None = pc.max(column.cast(pa.int64()) if pa.types.is_timestamp(kind) else column).as_py()
    return None if newest is None else newest * 1000 // per_second(kind)


def per_second(kind: pa.DataType) -> int:
    """The resolution of a time column, in ticks per second."""
    return _PER_SECOND[kind.unit] if pa.types.is_timestamp(kind) else 1000


class SavedWatermark:
    """The latest watermark, also in checkpoints, so that a row that was late is late after a restore too."""

    def __init__(self, context: OperatorContext) -> None:
        self._saved: OperatorList = context.states.operator.union_list_state("watermark", int)
        # The least of all subtasks: rescaling may have given this one keys of any of them.
        self.ms: int = min(self._saved, default=-MAX_WATERMARK)

    def advance(self, timestamp_ms: int) -> None:
        self.ms = max(self.ms, timestamp_ms)

    def save(self) -> None:
        """Write it into state; call this from `snapshot`."""
        # MAX_WATERMARK is not saved: a job resumed from here may have more data. -MAX_WATERMARK is: the rows a subtask
        # without a watermark has yet to read may go to any subtask after a restore, and are not late there.
        self._saved.set([self.ms] if self.ms != MAX_WATERMARK else [])

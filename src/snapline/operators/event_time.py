"""Event time in columns of timestamps or of whole milliseconds, and the watermark that checkpoints keep."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from snapline.contracts.operator import OperatorContext
from snapline.errors import UserCodeError
from snapline.operators.row_batches import row_at
from snapline.state.arrays import Ints
from snapline.text import explanation, for_row
from snapline.types import MAX_WATERMARK

_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


def ticks_per_ms(kind: pa.DataType) -> int:
    """The resolution of a time column in ticks per millisecond, at least 1."""
    return max(per_second(kind) // 1000, 1)


def times(column: pa.Array, name: str, what: str, ticks: int = 1, batch: pa.RecordBatch | None = None) -> Ints:
    """The times in a column, in ticks of which a millisecond has `ticks`; finer times are rounded down.

    Raises `UserCodeError` for nulls and for times out of range; `what` is the operator and `name` the column in it.
    `batch` has the rows, for the message.
    """
    if column.null_count:
        row = None if batch is None else row_at(batch, column.is_null().index(True).as_py())
        raise UserCodeError(
            f"{what}: the time column {name!r} has nulls; filter such rows out, or fill in a time{for_row(row)}"
        )
    own, wanted = per_second(column.type), 1000 * ticks
    try:
        numbers = column.cast(pa.int64())
        if own < wanted:
            numbers = pc.multiply_checked(numbers, wanted // own)
    except pa.ArrowInvalid as error:
        raise UserCodeError(f"{what}: the time column {name!r} has times out of range: {explanation(error)}") from error
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
    """The latest watermark, also in checkpoints, so that a row that was late is late after a restore too.

    `older_list` names the union list in which the operator kept it in checkpoints of format version 1.
    """

    def __init__(self, context: OperatorContext, *, older_list: str | None = None) -> None:
        self._states = context.states
        if older_list is not None and (older := self._states.operator.take_restored(older_list)):
            least = min(older)
            self._states.watermark_ms = None if least == -MAX_WATERMARK else least
        restored_ms = self._states.watermark_ms
        self.ms: int = -MAX_WATERMARK if restored_ms is None else restored_ms
        """The watermark; before the first one it is less than any."""

    def advance(self, timestamp_ms: int) -> None:
        """A watermark has arrived. After a restore it may be older than the saved one, which then still holds."""
        if timestamp_ms > self.ms:
            self.ms = self._states.watermark_ms = timestamp_ms

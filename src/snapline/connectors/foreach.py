"""Sinks that pass rows to a function or print them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.config import Size, size_bytes
from snapline.config.setting_checks import count
from snapline.contracts.plain_data import stream_bytes
from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter
from snapline.errors import ConfigurationError, UserCodeError
from snapline.text import error_text, for_batch, for_row

RowFunction: TypeAlias = Callable[[dict[str, Any]], Any]
TableFunction: TypeAlias = Callable[[pa.Table, str], Any]

_SLICE_ROWS = 65_536
_MAX_LIMIT = 1_000_000_000


class Foreach(Sink):
    """Calls a function with every row, as a dict, as soon as the row arrives.

    At least once: after a failure it is called again with the rows since the last checkpoint. If the function is an
    object with methods `open` or `close`, `open` is called with the `SinkContext` before the first row and `close` at
    the end. Every subtask has its own copy.
    """

    two_phase = False

    def __init__(self, function: RowFunction) -> None:
        self._function = _checked(function, "Foreach", "a row")

    def writer(self, context: SinkContext) -> SinkWriter:
        return _ForeachWriter(self._function, context)


class ForeachBatch(Sink):
    """Calls `function(table, commit_id)` with a subtask's rows of a checkpoint, once the checkpoint is complete.

    If the job fails before the call is known to have returned, it is repeated with the same rows and id, perhaps by
    another process. A function that stores the id in the same transaction as its writes, and skips ids it has seen,
    therefore takes effect exactly once. A subtask makes its calls one after another, in checkpoint order, on a
    separate thread. `open` and `close` are as for `Foreach`.

    max_size: limit of a subtask's rows between two checkpoints, which are held in memory and in the checkpoint.
    """

    def __init__(self, function: TableFunction, *, max_size: Size = "64mb") -> None:
        self._function = _checked(function, "ForeachBatch", "a table and a commit id")
        self._max_bytes = size_bytes(max_size, setting="max_size")

    def writer(self, context: SinkContext) -> SinkWriter:
        return _ForeachBatchWriter(self._function, context, self._max_bytes)


class Print(Sink):
    """Prints rows to the standard output of their process as soon as they arrive; at least once.

    On Spark that is an executor's log, which local mode shows on the terminal. Every subtask prints its first `limit`
    rows in each attempt; None prints all. Lines start with the uid of the sink, and the subtask if there are several.
    """

    two_phase = False

    def __init__(self, limit: int | None = 1000) -> None:
        self._limit = None if limit is None else count(limit, "limit", least=0, most=_MAX_LIMIT)

    def writer(self, context: SinkContext) -> SinkWriter:
        return _PrintWriter(self._limit, context)


class _Uncommitted(SinkWriter):
    """A writer that leaves nothing outside before the commit, and by default has nothing to commit."""

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return ()

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        raise _foreign(committable)

    def abort_newer(self, checkpoint_id: int) -> None:
        """Nothing to drop."""


class _ForeachWriter(_Uncommitted):
    def __init__(self, function: Callable[..., Any], context: SinkContext) -> None:
        self._function = function
        self._what = f"the function of the sink {context.uid!r}"
        _call_if_there(function, "open", context)

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            try:
                self._function(row)
            except Exception as error:
                raise UserCodeError(f"{self._what} raised {error_text(error)}{for_row(row)}") from error

    def close(self) -> None:
        _call_if_there(self._function, "close")


class _ForeachBatchWriter(_ForeachWriter):
    """Prepares the rows themselves, as Arrow IPC streams; they exist only in checkpoints."""

    def __init__(self, function: TableFunction, context: SinkContext, max_bytes: int) -> None:
        super().__init__(function, context)
        self._uid = context.uid
        self._max_bytes = max_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._bytes += batch.nbytes
        if self._bytes > self._max_bytes:
            raise UserCodeError(
                f"sink {self._uid!r}: more than {self._max_bytes} bytes between two checkpoints; shorten "
                "Checkpoints(interval=...), use more subtasks, or raise ForeachBatch(max_size=...)"
            )

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        batches, self._batches, self._bytes = self._batches, [], 0
        return (stream_bytes(pa.Table.from_batches(batches)),) if batches else ()

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        if not isinstance(committable.payload, bytes):
            raise _foreign(committable)
        table = pa.ipc.open_stream(committable.payload).read_all()
        try:
            self._function(table, committable.name)
        except Exception as error:
            rows = for_batch(table.num_rows, table.slice(0, 1).to_pylist()[0] if table.num_rows else None)
            raise UserCodeError(f"{self._what} raised {error_text(error)}, for {committable.name}{rows}") from error
        return CommitResult.COMMITTED


class _PrintWriter(_Uncommitted):
    def __init__(self, limit: int | None, context: SinkContext) -> None:
        self._left = limit
        number = f"/{context.subtask}" if context.parallelism > 1 else ""
        self._start = f"{context.uid}{number}> "

    def write(self, batch: pa.RecordBatch) -> None:
        if self._left == 0:
            return
        wanted = batch.num_rows if self._left is None else min(self._left, batch.num_rows)
        for start in range(0, wanted, _SLICE_ROWS):
            rows = batch.slice(start, min(_SLICE_ROWS, wanted - start)).to_pylist()
            sys.stdout.write("".join(f"{self._start}{row}\n" for row in rows))
        if self._left is not None:
            self._left -= wanted
            if self._left == 0:
                sys.stdout.write(f"{self._start}... limit reached, see Print(limit=...)\n")
        sys.stdout.flush()


def _foreign(committable: Committable) -> UserCodeError:
    """A restored committable of the sink that had this uid before."""
    return UserCodeError(f"{committable.name} was prepared by another kind of sink; give this one another uid")


def _checked(function: Any, sink: str, arguments: str) -> Any:
    if not callable(function):
        raise ConfigurationError(f"{sink}({function!r}): give a function of {arguments}")
    return function


def _call_if_there(function: Any, method: str, *arguments: Any) -> None:
    found = getattr(function, method, None)
    if callable(found):
        found(*arguments)

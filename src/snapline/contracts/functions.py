"""Functions that users subclass for `process` and `async_map`.

A function is pickled with the job, and every subtask runs its own copy on one thread: open connections and files in
`open`. Keep what must survive a failure in state, which is declared in `open` too; attributes of the object are lost
with the process. An exception fails the task, and the job goes back to its last checkpoint.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from snapline.contracts.contexts import BatchContext, ProcessContext
from snapline.contracts.schemas import Row
from snapline.errors import UserCodeError
from snapline.state.timers import DueTimers


class _Function:
    """Base of the row functions."""

    def on_timer(self, time_ms: int, context: ProcessContext) -> None:
        """Called when a timer of the current key is due; `context.time_domain` tells event from processing time."""
        del context
        raise UserCodeError(f"a timer for {time_ms} is due, but the function has no method on_timer")

    def prepare_snapshot(self, checkpoint_id: int, context: ProcessContext) -> None:
        """Called just before the state is taken for a checkpoint: emit what you hold back, and write to operator state
        what is not there yet. There is no current key.
        """

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, which settles all older ones too. Not every checkpoint is reported."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete. May be reported twice, or not at all."""

    def close(self) -> None:
        """Release external resources. Called last, also after a failure, when `open` may not have been called."""


class ProcessFunction(_Function, ABC):
    """Processes the rows of one stream one by one."""

    def open(self, context: ProcessContext) -> None:
        """Called first, in each subtask: declare state, as in `self.count = context.value_state("count", int)`."""

    @abstractmethod
    def process(self, row: Row, context: ProcessContext) -> None:
        """Process a row, a dict. Pass results to `context.emit` or `context.emit_to`."""


class CoProcessFunction(_Function, ABC):
    """Processes the rows of two connected streams one by one.

    If both are keyed, rows with the same key share its state. If the second is broadcast, every subtask gets all its
    rows: keep them in `context.broadcast_state(...)`, which `process_first` can read but not write. Keyed state is then
    available in `process_first` only.
    """

    def open(self, context: ProcessContext) -> None:
        """Called first, in each subtask: declare state."""

    @abstractmethod
    def process_first(self, row: Row, context: ProcessContext) -> None:
        """Process a row of the stream that `connect` was called on."""

    @abstractmethod
    def process_second(self, row: Row, context: ProcessContext) -> None:
        """Process a row of the stream that was passed to `connect`."""


class AsyncFunction(ABC):
    """A row function for `async_map` that needs a client or a connection pool.

    Any of its methods may be a coroutine (`async def`); all coroutines of a subtask run on one event loop of its own.
    """

    def open(self) -> Any:
        """Called first, on the loop's thread: create what `ask` needs."""

    @abstractmethod
    def ask(self, row: Row) -> Any:
        """Returns the result for a row: a row, a list of rows, or None. A plain method runs in a thread of its own."""

    def close(self) -> Any:
        """Called last, on the loop's thread; `ask` is not called again."""


class BatchProcessFunction(ABC):
    """Processes the rows of one stream a batch at a time, with the vectorised calls of state and timers.

    Batch boundaries carry no meaning: results must not depend on them.
    """

    def open(self, context: BatchContext) -> None:
        """Called first, in each subtask: declare state."""

    @abstractmethod
    def process_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        """Process a batch; `context.keys(batch)` are its keys. Pass results to `context.emit`."""

    def on_timers(self, timers: DueTimers, context: BatchContext) -> None:
        """Called with timers that are due, earliest first; `timers.rows` are their keys for the vectorised calls."""
        del context
        raise UserCodeError(f"{len(timers)} timers are due, but the function has no method on_timers")

    def prepare_snapshot(self, checkpoint_id: int, context: BatchContext) -> None:
        """Called just before the state is taken for a checkpoint: emit what you hold back, and write to operator state
        what is not there yet. There is no current key.
        """

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable, which settles all older ones too. Not every checkpoint is reported."""

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint will never complete. May be reported twice, or not at all."""

    def close(self) -> None:
        """Release external resources. Called last, also after a failure, when `open` may not have been called."""

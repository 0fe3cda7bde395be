"""What users subclass for `process`, and for `async_map`.

A function is pickled with the job, and every subtask works with a copy of its own on one thread: connections and files
belong into `open`. What has to survive a failure belongs into state, which is declared in `open` too; attributes of the
object are lost with the process. What raises fails the task, and the job goes back to its last checkpoint.
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
    """What all of them have."""

    def on_timer(self, time_ms: int, context: ProcessContext) -> None:
        """A timer of the key has come due that was set for this time; `context.time_domain` says in which time."""
        del context
        raise UserCodeError(f"a timer for {time_ms} is due, and the function has no method on_timer")

    def close(self) -> None:
        """Release what is outside; called last, also after a failure, and then perhaps without `open`."""


class ProcessFunction(_Function, ABC):
    """Rows of one stream, one by one."""

    def open(self, context: ProcessContext) -> None:
        """Called first, in each subtask: declare state, such as `self.count = context.value_state("count", int)`."""

    @abstractmethod
    def process(self, row: Row, context: ProcessContext) -> None:
        """Take in a row, a dict. What comes of it is given to `context.emit` or `context.emit_to`."""


class CoProcessFunction(_Function, ABC):
    """Rows of two connected streams, one by one.

    If both are keyed, rows of the same key share its state. If the second is broadcast, every subtask gets all its
    rows: what they say is kept in `context.broadcast_state(...)`, which `process_first` can read and not write, and
    the state of a key is there for `process_first` only.
    """

    def open(self, context: ProcessContext) -> None:
        """Called first, in each subtask: declare state."""

    @abstractmethod
    def process_first(self, row: Row, context: ProcessContext) -> None:
        """Take in a row of the stream that `connect` was called on."""

    @abstractmethod
    def process_second(self, row: Row, context: ProcessContext) -> None:
        """Take in a row of the stream that was given to `connect`."""


class AsyncFunction(ABC):
    """A function of rows for `async_map` that needs something to ask with: a client, a pool of connections.

    Each of the methods may be a coroutine, `async def`; all coroutines run on one loop, which belongs to the subtask.
    """

    def open(self) -> Any:
        """Called first, on the loop's thread: make what `ask` needs."""

    @abstractmethod
    def ask(self, row: Row) -> Any:
        """What comes of a row: a row, a list of rows, or None. A plain method is called in a thread of its own."""

    def close(self) -> Any:
        """Called last, on the loop's thread; nothing is asked any more."""


class BatchProcessFunction(ABC):
    """Rows of one stream, a batch at a time: for work with the vectorised calls of states and timers.

    Where one batch ends and the next begins means nothing: what comes out may not depend on it.
    """

    def open(self, context: BatchContext) -> None:
        """Called first, in each subtask: declare state."""

    @abstractmethod
    def process_batch(self, batch: pa.RecordBatch, context: BatchContext) -> None:
        """Take in a batch; `context.keys(batch)` are its keys. What comes of it is given to `context.emit`."""

    def on_timers(self, timers: DueTimers, context: BatchContext) -> None:
        """Timers have come due, the earliest first; `timers.rows` are their keys for the vectorised calls."""
        del context
        raise UserCodeError(f"{len(timers)} timers are due, and the function has no method on_timers")

    def close(self) -> None:
        """Release what is outside; called last, also after a failure, and then perhaps without `open`."""

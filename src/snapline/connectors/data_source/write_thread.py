"""One call of a data source's `write`, which is fed while it runs."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

_MAX_WAITING = 4
"""Batches that wait for the user's code; then the task waits."""

_STOP_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class WriteStoppedError(Exception):
    """Raised in the iterator of `write` if its rows will never be committed: the task ends in the middle of them."""


class WriteThread:
    """Runs `write(batches)` in a thread of its own. The other methods are called by the task's thread."""

    def __init__(self, write: Callable[[Iterator[pa.RecordBatch]], Any], name: str) -> None:
        self._write = write
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[pa.RecordBatch] = deque()
        self._is_complete = False
        self._is_stopped = False
        self._has_returned = False
        self._result: Any = None
        self._error: BaseException | None = None
        # With the settings of the task's thread, such as whether messages may show values.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name=f"write-{name}", daemon=True)
        self._thread.start()

    def put(self, batch: pa.RecordBatch) -> None:
        """Hand rows over, or wait until there is room. Raises what `write` has raised.

        Rows for a `write` that has returned are dropped, as Spark does.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._has_returned or len(self._waiting) < _MAX_WAITING)
            self._raise()
            if not self._has_returned:
                self._waiting.append(batch)
                self._changed.notify_all()

    def finish(self) -> Any:
        """Tell `write` that there are no more rows, and return what it returns, or raise what it raises."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._has_returned)
            self._raise()
            return self._result

    def stop(self) -> None:
        """End `write` with an error. One that goes on for long is left behind: its rows are never committed."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            _log.warning("sink %s: write() still runs %g s after it was stopped", self._name, _STOP_TIMEOUT_S)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        result, error = None, None
        try:
            result = self._write(self._batches())
        except BaseException as raised:
            error = raised
        with self._changed:
            self._has_returned, self._result, self._error = True, result, error
            self._waiting.clear()
            self._changed.notify_all()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_complete or self._is_stopped)
                if self._is_stopped:
                    raise WriteStoppedError("the task has ended; its rows are written again after a restart")
                if not self._waiting:
                    return
                batch = self._waiting.popleft()
                self._changed.notify_all()
            yield batch

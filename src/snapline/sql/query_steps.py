"""A query that runs step by step, because its source says how much a step may read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from snapline.api.job_handle import JobFailedError, JobHandle, SnapshotFailedError
from snapline.connectors.files.file_steps import FileSteps
from snapline.connectors.foreach_dataframe import ForeachDataFrame
from snapline.contracts.sink import Sink
from snapline.sql.query_progress import is_over

_LOOK_EVERY_S = 1.0
_POLL_S = 0.005
_SETTLED_WITHIN_S = 5.0

_log = logging.getLogger(__name__)


class QuerySteps:
    """Drives a query from a thread of its own: reads the next files, takes a checkpoint, waits for its commits.

    With `has_rests` one more checkpoint follows when there is nothing left to read, for what event time ends by the
    last rows. With `goes_on` there are also some while no files come, for timers of processing time, or for rows of
    other sources. A function of batches is called once for each step with files, and else only if there are rows.
    """

    def __init__(
        self,
        sources: Sequence[FileSteps],
        sink: Sink,
        *,
        interval_s: float | None = None,
        has_rests: bool = True,
        goes_on: bool = False,
    ) -> None:
        self._sources = sources
        self._function = sink if isinstance(sink, ForeachDataFrame) else None
        if self._function is not None:
            self._function.calls_without_rows = True
        self._interval_s = interval_s
        self._has_rests = has_rests
        self._goes_on = goes_on
        self._is_rest_due = False
        self._changed = threading.Condition()
        self._asked = 0
        self._answered = 0
        self._is_over = False

    def start(self, handle: JobHandle) -> None:
        self._handle = handle
        threading.Thread(target=self._run, name=f"steps of {handle.id}", daemon=True).start()

    def drain(self) -> None:
        """Wait until everything that is there now is processed and committed. Raises the failure of the job."""
        with self._changed:
            self._asked += 1
            number = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or self._answered >= number)
        if self._is_over:
            self._handle.process_available()  # which waits for the end, and raises what failed the job

    def end(self) -> None:
        """The query is stopped."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _run(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._is_over and not is_over(self._handle.view()):
                with self._changed:
                    asked = self._asked
                try:
                    has_read = self._step()
                    if not has_read:
                        self._rest()
                        with self._changed:
                            self._answered = asked
                            self._changed.notify_all()
                except SnapshotFailedError as error:
                    _log.warning("a step of the query %s is tried again: %s", self._handle.id, error)
                    with self._changed:
                        self._changed.wait_for(lambda: self._is_over, _LOOK_EVERY_S)
                    continue
                due_s = max(due_s + (self._interval_s or 0), time.monotonic())
                self._wait(due_s if has_read else max(due_s, time.monotonic() + _LOOK_EVERY_S))
        except JobFailedError as error:
            _log.debug("the steps of the query %s end: %s", self._handle.id, error)  # the query raises it
        finally:
            self.end()

    def _step(self) -> bool:
        """Returns whether there was something to read."""
        if not self._handle.process_available(only_if=self._is_open):
            return False
        self._is_rest_due = self._has_rests
        until_s = time.monotonic() + _SETTLED_WITHIN_S
        while any(source.is_open for source in self._sources) and time.monotonic() < until_s and not self._is_over:
            time.sleep(_POLL_S)
        return True

    def _is_open(self) -> bool:
        is_open = any(source.is_open for source in self._sources)
        if self._function is not None:
            self._function.is_call_due = is_open
        return is_open

    def _rest(self) -> None:
        if self._is_rest_due or self._goes_on:
            self._handle.process_available()
            self._is_rest_due = False

    def _wait(self, until_s: float) -> None:
        with self._changed:
            seconds = until_s - time.monotonic()
            self._changed.wait_for(lambda: self._is_over or self._asked > self._answered, max(seconds, 0))

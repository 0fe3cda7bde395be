"""A running query, with the methods of PySpark's `StreamingQuery` and those of a job's handle."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.listener import StreamingQueryProgress

from snapline.api.job_handle import JobFailedError, JobHandle
from snapline.api.job_plan import JobPlan
from snapline.config import Path
from snapline.errors import ConfigurationError, SnaplineError
from snapline.protocol.statistics import StatisticsSnapshot
from snapline.sql.query_progress import ProgressLog, is_over
from snapline.sql.query_steps import QuerySteps
from snapline.types import JobStatus

_ENDED = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)
_LOOK_EVERY_S = 0.5

_log = logging.getLogger(__name__)


class QueryFailedError(JobFailedError, StreamingQueryException):
    """A query has failed: our error and PySpark's at once, so that programs that catch either go on to do so."""

    def getMessage(self) -> str:  # noqa: N802  # PySpark's name
        return str(self)


class StreamingQuery:
    """A query that runs. Methods in camel case are those of PySpark, with the same meaning.

    With `ends_when_read` it stops by itself when everything that its sources had at the start is processed. `is_stored`
    says that it can go on later from its checkpoints. `sink` describes where its rows go. `steps` takes its
    checkpoints, if a clock does not. `state_counts` are metrics of Spark by the names of operators.
    """

    def __init__(
        self,
        handle: JobHandle,
        plan: JobPlan,
        *,
        name: str | None,
        is_stored: bool,
        ends_when_read: bool = False,
        sink: str = "",
        steps: QuerySteps | None = None,
        state_counts: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self.handle = handle
        self._steps = steps
        self.name = name
        self._plan = plan
        self._is_stored = is_stored
        place = handle.view().checkpoints.storage if is_stored else uuid.uuid4()
        self._id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"snapline:{place}:{handle.id}"))
        self._run_id = str(uuid.uuid4())
        self._error: QueryFailedError | None = None
        self._log = ProgressLog({"id": self._id, "runId": self._run_id, "name": name}, sink, state_counts or {})
        self._over = threading.Event()
        self._end: threading.Thread | None = None
        threading.Thread(target=self._watch, name=f"progress of {handle.id}", daemon=True).start()
        if steps is not None:
            steps.start(handle)
        if ends_when_read:
            self._end = threading.Thread(target=self._end_when_read, name=f"end of {handle.id}", daemon=True)
            self._end.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            view = self.handle.view()
            self._log.look(view)
            if is_over(view):
                self._over.set()
            self._over.wait(_LOOK_EVERY_S)

    def _end_when_read(self) -> None:
        try:
            self._process_available()
        except JobFailedError as error:
            _log.debug("the query has failed before it had read everything: %s", error)
        except SnaplineError as error:
            self._error = QueryFailedError(str(error))
            self._error.__cause__ = error
        self._leave()

    # As in PySpark.

    @property
    def id(self) -> str:
        """The same in each run from the same checkpoints."""
        return self._id

    @property
    def runId(self) -> str:  # noqa: N802  # PySpark's name
        return self._run_id

    @property
    def isActive(self) -> bool:  # noqa: N802  # PySpark's name
        return self.handle.status() not in _ENDED or (self._end is not None and self._end.is_alive())

    @property
    def status(self) -> dict[str, Any]:
        status = self.handle.status()
        return {
            "message": status.value,
            "isDataAvailable": self.isActive,
            "isTriggerActive": status is JobStatus.RUNNING,
        }

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:  # noqa: N802  # PySpark's name
        """The newest of `recentProgress`, or None before the first checkpoint."""
        return self.recentProgress[-1] if self.recentProgress else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:  # noqa: N802  # PySpark's name
        """An entry for each of the newest checkpoints, which are what batches are in Spark."""
        self._log.look(self.handle.view())
        return self._log.entries

    def explain(self, extended: bool = False) -> None:
        """Print how the query runs."""
        import sys

        sys.stdout.write(f"{self._plan}\n")

    def processAllAvailable(self) -> None:  # noqa: N802  # PySpark's name
        """Wait until everything that the sources have now is processed, and the sink has committed it.

        What comes meanwhile may be processed too; a query that has ended is not waited for. Raises its failure.
        """
        with self._failures():
            self._process_available()

    def _process_available(self) -> None:
        if self._steps is None:
            self.handle.process_available()
        else:
            self._steps.drain()
        self._log.look(self.handle.view(), is_settled=True)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802  # PySpark's name
        """Wait until the query has ended; with a timeout in seconds, returns whether it has. Raises its failure."""
        if timeout is not None and (not isinstance(timeout, int | float) or timeout < 0):
            raise ConfigurationError(f"awaitTermination({timeout!r}): give seconds, 0 or more, or nothing")
        if self._end is not None:
            self._end.join(timeout)
            if self._end.is_alive():
                return False
        with self._failures():
            try:
                self.handle.wait(None if timeout is None else f"{int(timeout * 1000)}ms")
            except TimeoutError:
                return False
        return None if timeout is None else True

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raises the failure of the query, if there is one after what is done in here."""
        try:
            yield
        except JobFailedError as error:
            raise QueryFailedError(str(error), trace=error.trace, log=error.log) from None
        failure = self.exception()
        if failure is not None:
            raise failure

    def exception(self) -> QueryFailedError | None:
        """The error that has ended the query, or None."""
        if self.handle.status() is not JobStatus.FAILED:
            return self._error
        return QueryFailedError(self.handle.cause, trace=self.handle.trace, log=self.handle.log)

    def stop(self, savepoint: Path | None = None) -> str | None:
        """End the query. With `savepoint` it writes one there first, and returns its path.

        A query with a `checkpointLocation` goes on from there when it is started again.
        """
        if not self.isActive:
            return None
        if savepoint is not None:
            return self.handle.stop(savepoint)
        self._leave()
        return None

    def _leave(self) -> None:
        """End the job, so that it can go on later if its checkpoints stay."""
        if self._steps is not None:
            self._steps.end()
        if self._is_stored:
            self.handle.suspend()
        else:
            self.handle.cancel()
        self._over.set()

    # As in a job's handle.

    def savepoint(self, directory: Path | None = None) -> str:
        """Write a savepoint and return its path."""
        return self.handle.savepoint(directory)

    def checkpoints(self) -> StatisticsSnapshot:
        """Statistics of the checkpoints so far."""
        return self.handle.checkpoints()

    @property
    def url(self) -> str:
        """Where the query's page is."""
        return self.handle.url

    def __repr__(self) -> str:
        return f"<StreamingQuery {self.name or self.id}: {self.handle.status().value}>"

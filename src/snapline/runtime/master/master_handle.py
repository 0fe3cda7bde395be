"""Handle to a job that this process drives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from snapline.api.handle_html import handle_html
from snapline.api.job_handle import JobFailedError, SnapshotFailedError, handle_text
from snapline.config import Duration, Path, duration_ms
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.job.first_failure import Failure
from snapline.protocol.retention.retention_rules import keeps
from snapline.protocol.statistics.checkpoint_records import StatisticsSnapshot
from snapline.protocol.statistics.job_view import JobView
from snapline.protocol.statistics.progress import Progress
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.master.available_rows import AvailableRows
from snapline.runtime.master.job_log import Outcome
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.user_requests import checkpoint_request, snapshot_request
from snapline.types import CheckpointScope, JobStatus, SavepointFormat

T = TypeVar("T")


class MasterHandle:
    """`JobHandle` of a job whose master runs in this process. Any thread."""

    def __init__(self, thread: MasterThread) -> None:
        self._thread = thread
        self._spec = thread.spec

    def __repr__(self) -> str:
        return handle_text(self)

    def _repr_html_(self) -> str:
        return handle_html(self)

    @property
    def id(self) -> str:
        return self._spec.job_id

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def attempt(self) -> int:
        return self._thread.master.attempt

    @property
    def cause(self) -> str:
        failure = self._thread.master.failure.failure
        return "" if failure is None else failure.cause

    @property
    def trace(self) -> str:
        return self._thread.master.failure.trace

    @property
    def log(self) -> str:
        """The last log lines of the process in which the last attempt failed."""
        failure = self._thread.master.failure.failure
        return "" if failure is None else failure.log

    @property
    def repeats(self) -> int:
        return self._thread.master.repeats

    @property
    def url(self) -> str:
        return self._thread.url

    def status(self) -> JobStatus:
        return self._thread.master.status

    def view(self) -> JobView:
        return self._ask(self._thread.view, self._thread.view)

    def wait(self, timeout: Duration | None = None) -> JobStatus:
        outcome = self._outcome(timeout)
        if outcome.status is JobStatus.FAILED:
            failure = outcome.failure or Failure("the cause is not known")
            message = "\n".join(filter(None, (f"job {self.name!r} has failed: {failure.cause}", self._way_on())))
            raise JobFailedError(message, trace=failure.trace, log=failure.log)
        return outcome.status

    def _way_on(self) -> str:
        """What the user can do after a failure."""
        checkpoints, latest = self._spec.checkpoints, self.checkpoints().latest
        if checkpoints.storage is None:
            lost = "Its checkpoints were in the driver and are lost; set `storage` to keep them."
            return lost if checkpoints.is_periodic else ""
        if not keeps(checkpoints.externalized, JobStatus.FAILED):
            return f"Its checkpoints are deleted (externalized={checkpoints.externalized.value!r})."
        completed, restored = latest.completed, latest.restored
        path = restored.external_path if restored is not None else None
        if completed is not None and completed.completion is not None:
            path = completed.completion.external_path
        start = f"it goes on from {path}" if path else "it begins anew, as no checkpoint had completed"
        return f"Mend the cause and start the job again under the id {self.id!r}: {start}."

    def checkpoints(self) -> StatisticsSnapshot:
        return self._ask(lambda: self._thread.master.statistics, lambda: self._thread.last_statistics)

    def metrics(self) -> dict[str, TaskMetrics]:
        master = self._thread.master
        return self._ask(lambda: dict(master.monitor.metrics), lambda: dict(master.monitor.metrics))

    def progress(self) -> Progress:
        return self._ask(self._thread.progress, self._thread.progress)

    def memory_bytes(self) -> dict[int, int]:
        """Memory of each slot's operator process, as last reported."""
        master = self._thread.master
        return self._ask(lambda: dict(master.monitor.memory_bytes), lambda: dict(master.monitor.memory_bytes))

    def events(self) -> list[tuple[int, str]]:
        """Recent events with their times in milliseconds: status, attempts, failures, checkpoints."""
        return self._thread.events.all()

    def checkpoint(self, scope: CheckpointScope = CheckpointScope.CONFIGURED, timeout: Duration | None = None) -> str:
        return self._request(checkpoint_request(self._spec.checkpoints, scope), timeout)

    def savepoint(
        self, directory: Path | None = None, *, format: SavepointFormat | None = None, timeout: Duration | None = None
    ) -> str:
        return self._request(snapshot_request(self._spec.checkpoints, directory, format, stop=False), timeout)

    def process_available(self, timeout: Duration | None = None, *, only_if: Callable[[], bool] | None = None) -> bool:
        return AvailableRows(self, self._catch_up).process(_seconds(timeout), only_if)

    def _catch_up(self, answer: Future[bool]) -> bool:
        """Returns False if the job has ended; the answer is whether the sources of this attempt have read all."""
        master = self._thread.master

        def ask() -> None:
            if master.coordinator is None or master.status is not JobStatus.RUNNING:
                answer.set_result(False)
            else:
                master.coordinator.catch_up(answer)

        return self._thread.post(ask)

    def stop(
        self,
        savepoint: Path | None = None,
        *,
        drain: bool = False,
        format: SavepointFormat | None = None,
        timeout: Duration | None = None,
    ) -> str:
        request = snapshot_request(self._spec.checkpoints, savepoint, format, stop=True, drain=drain)
        location = self._request(request, timeout)
        self._outcome(timeout)
        return location

    def cancel(self, timeout: Duration | None = None) -> None:
        self._thread.post(self._thread.master.cancel)
        self._outcome(timeout)

    def suspend(self, timeout: Duration | None = None) -> None:
        """Leave the job to another driver and wait until that is done: checkpoints stay, slots are released."""
        self._thread.post(self._thread.master.suspend)
        self._outcome(timeout)

    def _request(self, request: TriggerRequest, timeout: Duration | None) -> str:
        answer: Future[str] = Future()
        if not self._thread.post(self._thread.master.request, request, answer):
            self._outcome(timeout)
            raise SnapshotFailedError(f"no snapshot was taken: the job has ended ({self.status().value})")
        try:
            return answer.result(_seconds(timeout))
        except TimeoutError:
            raise TimeoutError(f"no snapshot within {timeout}; it may still be taken, see checkpoints()") from None

    def _outcome(self, timeout: Duration | None) -> Outcome:
        try:
            outcome = self._thread.ended.result(_seconds(timeout))
        except TimeoutError:
            raise TimeoutError(f"job {self.name!r} has not ended within {timeout}: {self.status().value}") from None
        self._thread.join()
        return outcome

    def _ask(self, on_loop: Callable[[], T], after_the_end: Callable[[], T]) -> T:
        answer: Future[T] = Future()

        def reply() -> None:
            try:
                answer.set_result(on_loop())
            except Exception as error:
                answer.set_exception(error)

        if self._thread.post(reply):
            return answer.result()
        self._outcome(None)
        return after_the_end()


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration_ms(timeout, setting="timeout") / 1000

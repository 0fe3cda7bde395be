"""The job of a master thread, as the web server sees it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from snapline.api.job_handle import SnapshotFailedError
from snapline.errors import ConfigurationError, SnaplineError
from snapline.protocol.coordinator.request_decider import TriggerRequest
from snapline.protocol.statistics.job_view import JobView
from snapline.runtime.master.job_log import Outcome
from snapline.runtime.master.master_thread import MasterThread
from snapline.runtime.master.user_requests import checkpoint_request, snapshot_request
from snapline.types import CheckpointScope, SavepointFormat

T = TypeVar("T")


class ThreadJob:
    """A `MonitoredJob`. Nothing here waits: the master's loop sets the futures."""

    can_change = True

    def __init__(self, thread: MasterThread) -> None:
        self._thread = thread

    @property
    def job_id(self) -> str:
        return self._thread.spec.job_id

    @property
    def name(self) -> str:
        return self._thread.spec.name

    def view(self) -> Future[JobView]:
        answer: Future[JobView] = Future()
        if not self._thread.post(_answer, answer, self._thread.view):
            # The loop is gone or not there yet, and so is everybody who could change anything.
            _answer(answer, self._thread.view)
        return answer

    def checkpoint(self, scope: CheckpointScope) -> Future[str]:
        return self._request(checkpoint_request(self._thread.spec.checkpoints, scope))

    def savepoint(self, directory: str | None, format: SavepointFormat | None) -> Future[str]:
        return self._snapshot(directory, format, stop=False)

    def stop(self, directory: str | None, format: SavepointFormat | None, *, drain: bool) -> Future[str]:
        return self._snapshot(directory, format, stop=True, drain=drain)

    def cancel(self) -> Future[None]:
        done: Future[None] = Future()

        def ended(outcome: Future[Outcome]) -> None:
            error = outcome.exception()
            done.set_result(None) if error is None else done.set_exception(error)

        self._thread.post(self._thread.master.cancel)
        self._thread.ended.add_done_callback(ended)
        return done

    def dispose(self, path: str) -> Future[None]:
        done: Future[None] = Future()

        def run() -> None:
            _answer(done, lambda: self._thread.dispose(path))

        # Deleting many files takes time, and the loop must not wait for it.
        threading.Thread(target=run, name="snapline-dispose", daemon=True).start()
        return done

    def _snapshot(
        self, directory: str | None, format: SavepointFormat | None, *, stop: bool, drain: bool = False
    ) -> Future[str]:
        if directory is not None and "://" not in directory and not directory.startswith("/"):
            return _failed(ConfigurationError(f"{directory!r} is relative; name a directory by its whole path or URL"))
        try:
            request = snapshot_request(self._thread.spec.checkpoints, directory, format, stop=stop, drain=drain)
        except SnaplineError as error:
            return _failed(error)
        return self._request(request)

    def _request(self, request: TriggerRequest) -> Future[str]:
        answer: Future[str] = Future()
        if not self._thread.post(self._thread.master.request, request, answer):
            status = self._thread.master.status
            return _failed(SnapshotFailedError(f"no snapshot was taken: the job has ended ({status.value})"))
        return answer


def _failed(error: Exception) -> Future[str]:
    failed: Future[str] = Future()
    failed.set_exception(error)
    return failed


def _answer(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except Exception as error:
        answer.set_exception(error)

"""Waiting until what a job's sources have is processed and committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError

from snapline.api.job_handle import JobHandle, SnapshotFailedError
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.types import JobStatus, TaskStatus

_POLL_S = 0.02
_ENDED = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.SUSPENDED)


class AvailableRows:
    """`catch_up` takes a future and sets it on the job's loop once all sources have read what they had.

    It returns False if the job has ended. The future is False if the job did not run, or stopped running: then the
    rows are read again, perhaps by another attempt, and everything is asked for once more.
    """

    def __init__(self, handle: JobHandle, catch_up: Callable[[Future[bool]], bool]) -> None:
        self._handle = handle
        self._catch_up = catch_up

    def process(self, timeout_s: float | None, only_if: Callable[[], bool] | None) -> bool:
        """Returns whether a checkpoint was taken: `only_if` is asked once everything is read.

        Raises `JobFailedError` if the job has failed, and `TimeoutError`.
        """
        self._end_s = None if timeout_s is None else time.monotonic() + timeout_s
        is_taken = False
        while not self._has_ended:
            attempt = self._handle.attempt
            if self._is_read():
                if only_if is not None and not only_if():
                    break
                if self._is_in_checkpoint(attempt):
                    self._wait_for_commits()
                    is_taken = True
                    break
            self._pause()
        if self._has_ended:
            self._handle.wait()
        return is_taken

    @property
    def _has_ended(self) -> bool:
        return self._handle.status() in _ENDED

    def _is_read(self) -> bool:
        answer: Future[bool] = Future()
        if not self._catch_up(answer):
            return False
        while not self._has_ended:
            try:
                return answer.result(_POLL_S)
            except FutureTimeoutError:
                self._check_time()
        return False

    def _is_in_checkpoint(self, attempt: int) -> bool:
        try:
            self._handle.checkpoint()
        except SnapshotFailedError:
            if self._handle.attempt == attempt and self._handle.status() is JobStatus.RUNNING:
                raise
            return False
        return self._handle.attempt == attempt

    def _wait_for_commits(self) -> None:
        """Until every sink knows of the checkpoint, and has nothing left of it to commit."""
        latest = self._handle.checkpoints().latest.completed
        assert latest is not None
        while not self._has_ended:
            if all(_has_committed(subtask, latest.id) for subtask in self._handle.view().subtasks):
                return
            self._pause()

    def _pause(self) -> None:
        self._check_time()
        time.sleep(_POLL_S)

    def _check_time(self) -> None:
        if self._end_s is not None and time.monotonic() > self._end_s:
            raise TimeoutError("not everything that was there has been processed in time; the job goes on")


def _has_committed(subtask: SubtaskView, checkpoint_id: int) -> bool:
    """Whether a subtask has nothing left to commit of checkpoints up to this one, by its own last report."""
    if subtask.status is TaskStatus.FINISHED:
        return True
    if subtask.metrics is None:
        return False
    commits = subtask.metrics.commits
    return commits is None or (commits.told_id >= checkpoint_id and not commits.waiting)

"""The end of a program while its jobs run."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

import pytest

from snapline.runtime.master import program_exit
from snapline.types import JobStatus


class Handle:
    """The handle of a job, as far as the end of the program needs it."""

    def __init__(self, status: JobStatus, *, hangs: bool = False) -> None:
        self.name = self.id = status.name.lower()
        self._status = status
        self._hangs = hangs
        self.suspended: list[str] = []

    def status(self) -> JobStatus:
        return self._status

    def suspend(self, timeout: str) -> None:
        self.suspended.append(timeout)
        if self._hangs:
            raise TimeoutError("it did not end in time")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is to be called at the end of the program."""
    calls: list[Any] = []
    monkeypatch.setattr(threading, "_register_atexit", calls.append)
    monkeypatch.setattr(program_exit, "_is_registered", False)
    monkeypatch.setattr(program_exit, "_handles", type(program_exit._handles)())
    return calls


def suspend(*handles: Any) -> None:
    for handle in handles:
        program_exit.suspend_at_exit(handle)


def test_jobs_that_run_are_suspended_and_others_left_alone(
    registered: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    runs, restarts = Handle(JobStatus.RUNNING), Handle(JobStatus.RESTARTING)
    over = [Handle(status) for status in (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.SUSPENDED)]
    suspend(runs, restarts, *over)
    (at_exit,) = registered
    with caplog.at_level(logging.WARNING):
        at_exit()
    assert [len(handle.suspended) for handle in (runs, restarts, *over)] == [1, 1, 0, 0, 0]
    assert "the program ends while job running runs" in caplog.text


def test_a_job_that_cannot_be_suspended_is_reported_and_the_next_one_is(
    registered: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    handles = [Handle(JobStatus.RUNNING, hangs=True), Handle(JobStatus.RUNNING, hangs=True)]
    suspend(*handles)
    registered[0]()
    assert all(handle.suspended for handle in handles)
    assert caplog.text.count("could not be suspended in time: it did not end in time") == 2


def test_a_handle_that_nobody_holds_is_forgotten(registered: list[Any]) -> None:
    suspend(Handle(JobStatus.RUNNING))
    gc.collect()
    assert len(program_exit._handles) == 0
    registered[0]()

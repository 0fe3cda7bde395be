"""The check of the executors' Python, without executors; `tests/spark` runs it in real tasks."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from snapline.config import Execution
from snapline.errors import ConfigurationError
from snapline.spark import preflight
from snapline.spark.preflight import PACKAGES, check_python, look_for_packages


class Probe:
    """An RDD whose tasks run here."""

    _jrdd = None

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run

    def map(self, function: object) -> Probe:
        assert function is look_for_packages
        return self

    def collect(self) -> None:
        self._run()


def make_context(run: Callable[[], None]) -> Any:
    return SimpleNamespace(
        applicationId=uuid.uuid4().hex,
        pythonExec="python3",
        master="yarn",
        getConf=lambda: SimpleNamespace(contains=lambda name: False),
        setJobGroup=lambda group, description: None,
        parallelize=lambda items, slices: Probe(run),
    )


def test_an_application_that_passed_is_not_checked_again() -> None:
    runs: list[int] = []
    context = make_context(lambda: runs.append(1))
    check_python(context, Execution())
    check_python(context, Execution())
    assert runs == [1]


def test_a_missing_package_is_refused() -> None:
    def fail() -> None:
        raise ModuleNotFoundError("No module named 'msgspec'")

    with pytest.raises(ConfigurationError, match="executors cannot run the job: No module named 'msgspec'"):
        check_python(make_context(fail), Execution())


def test_another_failure_is_logged_and_checked_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def fail() -> None:
        runs.append(1)
        raise RuntimeError("lost an executor")

    context = make_context(fail)
    check_python(context, Execution())
    check_python(context, Execution())
    assert runs == [1, 1]
    assert "could not check the executors' Python: lost an executor" in caplog.text


def test_every_package_that_tasks_need_is_looked_for() -> None:
    look_for_packages(PACKAGES)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        look_for_packages(("numpy", "no_such_package"))


def test_the_package_of_the_state_backend_is_looked_for_too() -> None:
    context = make_context(lambda: None)
    asked: list[Any] = []

    def parallelize(items: Any, slices: int) -> Probe:
        asked.append(items)
        return Probe(lambda: None)

    context.parallelize = parallelize
    check_python(context, Execution())
    check_python(context, Execution(state_backend="rocksdb"))
    assert asked == [[PACKAGES], [(*PACKAGES, "rocksdict")]]


def test_a_check_for_which_no_slot_is_free_is_given_up_and_that_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(preflight, "TIMEOUT_S", 0.01)
    is_over, cancelled = threading.Event(), list[str]()
    context = make_context(lambda: (is_over.wait(30), None)[1])
    context.cancelJobGroup = cancelled.append
    check_python(context, Execution())
    is_over.set()
    assert len(cancelled) == 1
    assert "could not check the executors' Python: no task slot was free within 0.01 s" in caplog.text

"""Settings for every test: Hypothesis draws the same examples on every run, on every machine; Spark goes first.

The fixtures with real servers are in `tests/servers_kit.py`.
"""

from __future__ import annotations

import copy
import gc
import os
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import settings
from tests.program_kit import programs

from snapline.api.job import Job
from snapline.config import Execution
from snapline.devtools.kit.forked_operators import ForkedOperators
from snapline.devtools.servers.spark_classes import java_options
from snapline.graph.job_spec import JobSpec
from snapline.graph.planner import make_spec
from snapline.runtime.slot.process_launcher import LaunchedProcess
from snapline.testing import clusters

# Hundreds of processes that tests start import the same modules: where an environment turns bytecode off, each of them
# would compile them all again, and so would each process of pytest the tests.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

pytest_plugins = ["tests.servers_kit"]

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=2000)
settings.load_profile("ci")


PATIENCE_MS = 60_000
SOCKETS_OF_PYSPARK = (
    r"ignore:unclosed <socket.socket \[closed\]:ResourceWarning",
    r"ignore:Exception ignored in. <socket.socket \[closed\]:pytest.PytestUnraisableExceptionWarning",
)
"""PySpark leaves the socket of a result to the garbage collector, which comes by in any later test."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark first: of several processes the first gets them all, so that no two Sparks run at a time.

    Those with Kafka clients, whose threads live on for a while with connections and pipes of their own, and those with
    a browser, which keeps an event loop running, are marked: `make test` runs them in processes apart from tests that
    look for leaks or start loops.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(("tests/spark/", "tests/web/")))
    for item in items:
        if any(word in item.nodeid.lower() for word in ("kafka", "broker", "connectors_benchmark", "tests/web/")):
            item.add_marker("apart")
        if item.nodeid.startswith("tests/spark/"):
            for closed in SOCKETS_OF_PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(closed))


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: whoever collects garbage need not go through them each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Jobs with a page write their addresses, and tokens, into the user's home: not into that of whoever runs tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SNAPLINE_HOME", str(tmp_path_factory.mktemp("snapline-home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_disks() -> Iterator[None]:
    """Tests kill processes and never cut the power, and what a killed process has written is there without `fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_clusters() -> Iterator[None]:
    """On a loaded machine a job is silent for longer than the default allows: only timeouts that a test sets count."""
    default_ms = Execution().heartbeat_timeout_ms

    def make_patient_spec(job: Job) -> JobSpec:
        given = job.execution
        if given.heartbeat_timeout_ms == default_ms:
            job.execution = copy.copy(given)
            job.execution._fill(heartbeat_timeout_ms=PATIENCE_MS)
        try:
            return make_spec(job)
        finally:
            job.execution = given

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "make_spec", make_patient_spec)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_operators() -> Iterator[None]:
    """Hundreds of tests start operator processes: here they are forks. Tests on Spark start them as users do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "LaunchedProcess", partial(ForkedOperators, programs()))
        yield


@pytest.fixture
def launched_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operator processes start as users' do, where that matters."""
    monkeypatch.setattr(clusters, "LaunchedProcess", LaunchedProcess)


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if "JAVA_TOOL_OPTIONS" not in os.environ:
            patch.setenv("JAVA_TOOL_OPTIONS", java_options())
        yield


@pytest.fixture(scope="module", autouse=True)
def no_page_is_left() -> Iterator[None]:
    """The server of a program outlives its jobs: the next tests may count threads and sockets."""
    yield
    server = sys.modules.get("snapline.web.web_server")
    if server is not None:
        server.close_all()

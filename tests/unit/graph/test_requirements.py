"""What a job needs is tried before it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import snapline as sl
from snapline.errors import ConfigurationError
from snapline.graph.planner import make_spec
from snapline.graph.requirements import check_packages, check_sinks
from snapline.operators.sink_operator import SinkOperator


class Picky(sl.Sink):
    """A sink whose check raises."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.checks = 0

    def check_access(self) -> None:
        self.checks += 1
        if self.error is not None:
            raise self.error

    def writer(self, context: sl.SinkContext) -> Any:
        raise AssertionError("nothing is written here")


def test_rocksdb_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    check_packages(sl.Execution())
    check_packages(sl.Execution(state_backend="rocksdb"))
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    check_packages(sl.Execution())
    with pytest.raises(ConfigurationError, match=r"state_backend='rocksdb' needs .*pip install 'snapline\[rocksdb\]'"):
        check_packages(sl.Execution(state_backend="rocksdb"))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigurationError("no bucket"), "the sink 'out' cannot be written: no bucket"),
        (OSError(28, "No space left"), r"the sink 'out' cannot be written: OSError: \[Errno 28\] No space left"),
    ],
)
def test_a_sink_that_cannot_be_written_is_named(error: Exception, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        check_sinks([("out", SinkOperator(Picky(error)))])


def test_every_sink_of_a_job_is_tried_when_it_starts(tmp_path: Path) -> None:
    good, bad = Picky(None), Picky(ConfigurationError("no bucket"))
    job = sl.Job("picky")
    stream = job.source(sl.sources.Rate(rows=10), uid="rows")
    stream.sink(good, uid="good")
    stream.sink(bad, uid="bad")
    assert (good.checks, bad.checks) == (0, 0), "a job that is only built needs nothing"
    with pytest.raises(ConfigurationError, match="the sink 'bad' cannot be written: no bucket"):
        make_spec(job)
    assert (good.checks, bad.checks) == (1, 1)

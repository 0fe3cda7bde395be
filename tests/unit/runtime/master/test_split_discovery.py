"""Looking for splits while a job runs: what is found is sent, and nothing is after the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.runtime.runtime_bench import Bench

from snapline.errors import UserCodeError
from snapline.runtime.master.split_discovery import Discovery


class Coordinators:
    """One source, in which something new is found each time,."""

    def __init__(self) -> None:
        self.discovery_intervals_ms = {"files": 1000}
        self.looked = 0
        self.problem: Exception | None = None
        self.is_exhausted = False

    def discovery(self, operator: str) -> Callable[[], Any]:
        assert operator == "files"
        self.looked += 1
        return lambda: self.looked

    def discovered(self, operator: str, found: Any) -> list[tuple[int, Any]]:
        if self.problem is not None:
            raise self.problem
        return [(0, f"{operator}-{found}")]


Waiting = tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]


class Calls:
    """In place of threads: calls that the test lets return."""

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []

    def run(
        self, call: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None], what: str
    ) -> None:
        assert what.startswith("discover() of the source")
        self.waiting.append((call, done, failed))


class Setup:
    def __init__(self) -> None:
        self.bench = Bench()
        self.coordinators = Coordinators()
        self.calls = Calls()
        self.sent: list[Any] = []
        self.failures: list[Exception] = []
        self.discovery = Discovery(
            self.coordinators,  # type: ignore[arg-type]
            self.bench.scheduler,
            self.calls,  # type: ignore[arg-type]
            lambda operator, answers: self.sent.append((operator, list(answers))),
            self.failures.append,
        )

    def looked(self) -> Waiting:
        """The look that is due after one interval."""
        self.bench.advance(999)
        assert self.calls.waiting == []
        self.bench.advance(1)
        (waiting,) = self.calls.waiting
        self.calls.waiting.clear()
        return waiting


def test_what_is_found_is_sent_and_one_look_follows_the_other() -> None:
    setup = Setup()
    setup.discovery.start()
    for number in (1, 2):
        call, done, _ = setup.looked()
        setup.bench.advance(5000)
        assert setup.calls.waiting == [], "one look at a time"
        done(call())
        assert setup.sent[-1] == ("files", [(0, f"files-{number}")])
    setup.discovery.stop()
    setup.bench.advance(5000)
    assert setup.calls.waiting == []
    assert setup.failures == []


def test_what_comes_after_the_end_is_dropped() -> None:
    setup = Setup()
    setup.discovery.start()
    call, done, failed = setup.looked()
    setup.discovery.stop()
    done(call())
    failed(UserCodeError("late"))
    setup.bench.advance(5000)
    assert (setup.sent, setup.failures, setup.calls.waiting) == ([], [], [])


def test_failures_are_told_and_nobody_looks_again() -> None:
    setup = Setup()
    setup.discovery.start()
    call, done, failed = setup.looked()
    failed(UserCodeError("one"))
    setup.coordinators.problem = UserCodeError("two")
    done(call())
    assert [str(error) for error in setup.failures] == ["one", "two"]
    assert setup.sent == []
    setup.bench.advance(5000)
    assert setup.calls.waiting == []


@pytest.mark.parametrize("is_looking", [False, True], ids=["between two looks", "during a look"])
def test_draining_looks_once_more_and_waits_until_all_is_read(is_looking: bool) -> None:
    setup, drained = Setup(), list[str]()
    setup.discovery.start()
    under_way = [setup.looked()] if is_looking else []
    setup.discovery.drain(lambda: drained.append("drained"))
    for call, done, _ in under_way:
        done(call())
    setup.discovery.check()
    ((call, done, _),) = setup.calls.waiting
    setup.calls.waiting.clear()
    setup.coordinators.is_exhausted = True
    setup.discovery.check()
    assert drained == [], "the last look may find more"
    setup.coordinators.is_exhausted = False
    done(call())
    assert len(setup.sent) == len(under_way) + 1
    assert drained == []
    setup.coordinators.is_exhausted = True
    setup.discovery.check()
    setup.discovery.check()
    assert drained == ["drained"]
    setup.bench.advance(5000)
    assert setup.calls.waiting == [], "nobody looks again"
    setup.discovery.resume()
    setup.looked()


def test_a_job_that_stops_running_is_not_drained() -> None:
    setup, drained = Setup(), list[str]()
    setup.discovery.start()
    assert setup.discovery.is_needed
    setup.discovery.drain(lambda: drained.append("drained"))
    setup.discovery.stop()
    setup.coordinators.is_exhausted = True
    setup.discovery.check()
    assert drained == []
    assert not setup.discovery.is_needed

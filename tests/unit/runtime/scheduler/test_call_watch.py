"""Warnings about calls that do not return."""

from __future__ import annotations

import logging

import pytest
from tests.unit.runtime.runtime_bench import Bench

from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.call_watch import CallWatch

LOGGER = "snapline.runtime.scheduler.call_watch"


def test_warnings_come_after_growing_pauses_and_end_with_the_call(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.INFO, LOGGER):
        watch = CallWatch(bench.scheduler, "job a: writing chk-7/_metadata")
        bench.advance(100_000)
        watch.end()
        bench.advance(1_000_000)
    begin = "job a: writing chk-7/_metadata has"
    assert [record.getMessage() for record in caplog.records] == [
        *(f"{begin} not returned after {seconds} s" for seconds in (10, 20, 40, 80)),
        f"{begin} returned after 100 s",
    ]


def test_a_call_that_returns_soon_is_not_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    with caplog.at_level(logging.INFO, LOGGER):
        watch = CallWatch(bench.scheduler, "it")
        bench.advance(9_999)
        watch.end()
        bench.advance(100_000)
    assert caplog.records == []


def test_a_call_on_a_thread_is_watched_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    bench, answers = Bench(), list[object]()
    calls = BackgroundCalls(bench.scheduler, 1, "test")
    with caplog.at_level(logging.INFO, LOGGER):
        calls.run(lambda: bench.kernel.sleep(15_000), answers.append, answers.append, "the journal")
        calls.run(lambda: bench.kernel.sleep(15_000), answers.append, answers.append)
        bench.run()
    assert len(answers) == 2
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["the journal has not returned after 10 s", "the journal has returned after 15 s"]

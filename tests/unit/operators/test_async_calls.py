"""Calls on other threads: coroutines and blocking functions, retries, timeouts, and the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from snapline.operators.async_calls import AsyncCalls, CallOutcome, RetryPolicy, is_asynchronous

Make = Callable[..., AsyncCalls[int]]
PATIENT = RetryPolicy(timeout_s=30, retries=0, backoff_s=0.001)


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[AsyncCalls[int]] = []

    def start(function: Callable[..., Any], policy: RetryPolicy = PATIENT, **options: Any) -> AsyncCalls[int]:
        options = {"notify": lambda: None, "threads": 4, "name": "test", **options}
        made.append(AsyncCalls(function, policy, **options))
        return made[-1]

    yield start
    for calls in made:
        calls.close()


def outcomes(calls: AsyncCalls[int], count: int) -> list[CallOutcome[int]]:
    found: list[CallOutcome[int]] = []
    while len(found) < count:
        calls.wait(30)
        found += calls.take()
    return sorted(found, key=lambda outcome: outcome.request)


async def doubled(row: dict[str, Any]) -> int:
    await asyncio.sleep(0)
    return int(row["n"] * 2)


def blocking(row: dict[str, Any]) -> int:
    assert threading.current_thread().name.startswith("test")
    return int(row["n"] * 2)


@pytest.mark.parametrize("function", [doubled, blocking])
def test_every_request_gets_its_outcome(make: Make, function: Any) -> None:
    calls = make(function)
    calls.start([(number, {"n": number}) for number in range(5)])
    assert [outcome.result for outcome in outcomes(calls, 5)] == [0, 2, 4, 6, 8]
    assert calls.take() == []


def test_errors_are_retried_with_a_fresh_row(make: Make) -> None:
    seen: list[dict[str, Any]] = []

    async def fails_twice(row: dict[str, Any]) -> str:
        seen.append(dict(row))
        row["spoiled"] = True
        if len(seen) < 3:
            raise ValueError("not yet")
        return "done"

    calls = make(fails_twice, RetryPolicy(timeout_s=30, retries=2, backoff_s=0.001))
    calls.start([(1, {"n": 1})])
    (outcome,) = outcomes(calls, 1)
    assert (outcome.result, outcome.error) == ("done", None)
    assert seen == [{"n": 1}] * 3


def test_the_last_error_is_the_outcome(make: Make) -> None:
    async def fails(row: dict[str, Any]) -> None:
        raise ValueError("no")

    calls = make(fails, RetryPolicy(timeout_s=30, retries=1, backoff_s=0.001))
    calls.start([(1, {})])
    (outcome,) = outcomes(calls, 1)
    assert isinstance(outcome.error, ValueError)
    assert not outcome.is_late


def test_a_call_that_takes_too_long_is_late(make: Make) -> None:
    async def hangs(row: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    calls = make(hangs, RetryPolicy(timeout_s=0.01, retries=0, backoff_s=0.001))
    calls.start([(1, {})])
    (outcome,) = outcomes(calls, 1)
    assert outcome.is_late


def test_outcomes_notify_again_after_they_are_taken(make: Make) -> None:
    notified = threading.Semaphore(0)
    calls = make(doubled, notify=notified.release)
    for _ in range(2):
        calls.start([(number, {"n": number}) for number in range(3)])
        assert notified.acquire(timeout=30)
        found = len(calls.take())
        while found < 3:
            assert notified.acquire(timeout=30)
            found += len(calls.take())


def test_close_cancels_calls_and_runs_the_last_one_on_the_loop() -> None:
    cancelled, closed = threading.Event(), []

    async def hangs(row: dict[str, Any]) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    started = threading.Event()
    calls: AsyncCalls[int] = AsyncCalls(hangs, PATIENT, 1, lambda: None, "closing")
    calls.start([(1, {})])
    assert started.wait(30)
    calls.close(lambda: closed.append(threading.current_thread().name))
    assert cancelled.is_set()
    assert closed == ["closing-loop"]
    assert "closing-loop" not in [thread.name for thread in threading.enumerate()]


def test_join_waits_for_blocking_calls_that_close_cannot_interrupt() -> None:
    has_started, may_return = threading.Event(), threading.Event()

    def blocks(row: dict[str, Any]) -> None:
        has_started.set()
        assert may_return.wait(30)

    calls: AsyncCalls[int] = AsyncCalls(blocks, PATIENT, 1, lambda: None, "joined")
    calls.start([(1, {})])
    assert has_started.wait(30)
    calls.close()
    thread = threading.Thread(target=calls.join)
    thread.start()
    assert thread.is_alive()
    may_return.set()
    thread.join(30)
    assert not thread.is_alive()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("joined")]


def test_asynchronous_functions_are_recognised() -> None:
    class Awaited:
        async def __call__(self, row: dict[str, Any]) -> None: ...

    assert is_asynchronous(doubled)
    assert is_asynchronous(Awaited())
    assert not is_asynchronous(blocking)

"""Looking for splits while a job runs: what is found is sent, and nothing is after the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from snapline.errors import UserCodeError
from snapline.runtime.master.split_discovery import Discovery


class Coordinators:
    """One source, in which something new is found each time."""

    def __init__(self) -> None:
        self.discovery_intervals_ms = {"files": 1}
        self.looked = 0
        self.problem: Exception | None = None

    def discovery(self, operator: str) -> Callable[[], Any]:
        assert operator == "files"
        self.looked += 1
        return lambda: self.looked

    def discovered(self, operator: str, found: Any) -> list[tuple[int, Any]]:
        if self.problem is not None:
            raise self.problem
        return [(0, f"{operator}-{found}")]


class Calls:
    """In place of threads: calls that the test lets return."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]] = []

    def run(self, call: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[Exception], None]) -> None:
        self.waiting.append((call, done, failed))


class Setup:
    def __init__(self) -> None:
        self.coordinators = Coordinators()
        self.calls = Calls()
        self.sent: list[Any] = []
        self.failures: list[Exception] = []
        self.discovery = Discovery(
            self.coordinators,  # type: ignore[arg-type]
            self.calls,  # type: ignore[arg-type]
            lambda operator, answers: self.sent.append((operator, list(answers))),
            self.failures.append,
        )

    async def looked(self) -> tuple[Callable[[], Any], Callable[[Any], None], Callable[[Exception], None]]:
        async with asyncio.timeout(10):
            while not self.calls.waiting:
                await asyncio.sleep(0.001)
        return self.calls.waiting.pop()


def test_what_is_found_is_sent_and_one_look_follows_the_other() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.discovery.start()
        for number in (1, 2):
            call, done, _ = await setup.looked()
            assert setup.calls.waiting == []
            done(call())
            assert setup.sent[-1] == ("files", [(0, f"files-{number}")])
        setup.discovery.stop()
        await asyncio.sleep(0.01)
        assert setup.calls.waiting == []
        assert setup.failures == []

    asyncio.run(scenario())


def test_what_comes_after_the_end_is_dropped() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.discovery.start()
        call, done, failed = await setup.looked()
        setup.discovery.stop()
        done(call())
        failed(UserCodeError("late"))
        await asyncio.sleep(0.01)
        assert (setup.sent, setup.failures, setup.calls.waiting) == ([], [], [])

    asyncio.run(scenario())


def test_failures_are_told() -> None:
    async def scenario() -> None:
        setup = Setup()
        setup.discovery.start()
        call, done, failed = await setup.looked()
        failed(UserCodeError("one"))
        setup.coordinators.problem = UserCodeError("two")
        done(call())
        assert [str(error) for error in setup.failures] == ["one", "two"]
        assert setup.sent == []
        setup.discovery.stop()

    asyncio.run(scenario())

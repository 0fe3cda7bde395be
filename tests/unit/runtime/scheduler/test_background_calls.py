"""Blocking calls and their answers."""

from __future__ import annotations

import asyncio
import threading

from tests.unit.runtime.runtime_bench import Bench

from snapline.errors import UserCodeError
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.loop_scheduler import LoopScheduler


def test_answers_come_back_on_the_loop() -> None:
    answers: list[tuple[str, object, threading.Thread]] = []

    def fail() -> None:
        raise ValueError("no")

    def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        calls = BackgroundCalls(LoopScheduler(asyncio.get_running_loop()), 2, "test")
        is_over = asyncio.Event()

        def answered(kind: str, answer: object) -> None:
            answers.append((kind, answer, threading.current_thread()))
            if len(answers) == 3:
                is_over.set()

        def done(result: object) -> None:
            answered("done", result)

        def failed(error: Exception) -> None:
            answered("failed", type(error))

        calls.run(lambda: 7, done, failed)
        calls.run(fail, done, failed)
        calls.run(leave, done, failed)
        await asyncio.wait_for(is_over.wait(), 10)
        assert calls.close(5)

    asyncio.run(main())
    assert {answer[:2] for answer in answers} == {("done", 7), ("failed", ValueError), ("failed", UserCodeError)}
    assert {answer[2] for answer in answers} == {threading.current_thread()}


def test_a_call_that_does_not_return_is_left_behind() -> None:
    has_begun, release, log = threading.Event(), threading.Event(), list[object]()

    async def main() -> BackgroundCalls:
        calls = BackgroundCalls(LoopScheduler(asyncio.get_running_loop()), 1, "test")

        def hold() -> None:
            has_begun.set()
            release.wait()

        calls.run(hold, lambda _: None, lambda _: None)
        calls.run(lambda: log.append("begun"), log.append, log.append)
        assert has_begun.wait(10)
        assert not calls.close(0.01)
        return calls

    calls = asyncio.run(main())
    release.set()
    assert calls.close(5)
    assert log == [], "what had not begun never begins, and is not answered"


def test_one_thread_makes_its_calls_in_order() -> None:
    bench = Bench()
    calls = BackgroundCalls(bench.scheduler, 1, "test")
    log: list[str] = []
    for name in ("a", "b", "c"):
        calls.run(lambda name=name: log.append(name), lambda _: None, lambda _: None)  # type: ignore[misc]
    assert log == [], "nothing happens inside the call"
    bench.run()
    assert log == ["a", "b", "c"]

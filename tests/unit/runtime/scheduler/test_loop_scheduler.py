"""A scheduler on an asyncio loop."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from snapline.runtime.scheduler.loop_scheduler import LoopScheduler


def test_calls_of_other_threads_are_made_on_the_loop_in_order() -> None:
    log: list[tuple[int, threading.Thread]] = []

    async def main() -> None:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        is_over = asyncio.Event()

        def note(number: int) -> None:
            log.append((number, threading.current_thread()))
            if number == 9:
                is_over.set()

        def send() -> None:
            for number in range(10):
                scheduler.post(note, number)

        sender = threading.Thread(target=send)
        sender.start()
        await asyncio.wait_for(is_over.wait(), 10)
        sender.join()

    asyncio.run(main())
    assert log == [(number, threading.current_thread()) for number in range(10)]


def test_a_call_comes_after_its_delay_unless_it_is_cancelled() -> None:
    log: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = LoopScheduler(loop)
        is_over = asyncio.Event()
        begun_s = scheduler.time_s()
        scheduler.call_later(0.001, log.append, "cancelled").cancel()
        scheduler.call_later(0.01, log.append, "late")
        scheduler.call_later(0.005, log.append, "early")
        scheduler.call_later(0.02, is_over.set)
        await asyncio.wait_for(is_over.wait(), 10)
        assert scheduler.time_s() - begun_s >= 0.02 - 0.005  # the loop rounds to the resolution of its clock

    asyncio.run(main())
    assert log == ["early", "late"]


def test_nothing_happens_on_a_loop_that_is_closed() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    LoopScheduler(loop).post(lambda: None)


def test_machines_and_people_have_clocks_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.new_event_loop()
    scheduler = LoopScheduler(loop)
    before = scheduler.now_ms()
    assert abs(scheduler.wall_ms() - time.time() * 1000) < 60_000
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000)
    assert scheduler.wall_ms() == 5
    assert before <= scheduler.now_ms() < before + 60_000
    loop.close()

"""Blocking calls and their answers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from snapline.errors import UserCodeError
from snapline.runtime.master.background_calls import Background, post_to


def test_answers_come_back_on_the_loop() -> None:
    answers: list[tuple[str, object, threading.Thread]] = []

    def fail() -> None:
        raise ValueError("no")

    def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        background = Background(asyncio.get_running_loop(), 2, "test")

        def done(result: object) -> None:
            answers.append(("done", result, threading.current_thread()))

        def failed(error: Exception) -> None:
            answers.append(("failed", type(error), threading.current_thread()))

        background.run(lambda: 7, done, failed)
        background.run(fail, done, failed)
        background.run(leave, done, failed)
        async with asyncio.timeout(5):
            while len(answers) < 3:
                await asyncio.sleep(0.001)
            assert await background.call(lambda: 8) == 8
            with pytest.raises(ValueError, match="no"):
                await background.call(fail)
        assert background.close(5)

    asyncio.run(main())
    assert {answer[:2] for answer in answers} == {("done", 7), ("failed", ValueError), ("failed", UserCodeError)}
    assert {answer[2] for answer in answers} == {threading.current_thread()}


def test_a_call_that_does_not_return_is_left_behind() -> None:
    release = threading.Event()

    async def main() -> Background:
        background = Background(asyncio.get_running_loop(), 1, "test")
        background.run(release.wait, lambda _: None, lambda _: None)
        assert not background.close(0.01)
        return background

    background = asyncio.run(main())
    release.set()
    assert background.close(5)


def test_nothing_happens_on_a_loop_that_is_closed() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    post_to(loop, lambda: None)

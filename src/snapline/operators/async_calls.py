"""Questions asked on other threads: coroutines on a loop of their own, or blocking calls in threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from snapline.contracts.schemas import Row

_CLOSE_TIMEOUT_S = 10.0
"""For what the user closes, and for the thread to end."""

Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Q]):
    """What has come of a question: a result, an error, or neither in time."""

    question: Q
    result: Any = None
    error: Exception | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for an answer in all, and how often to ask again after an error, with growing pauses."""

    timeout_s: float
    retries: int
    backoff_s: float


class Asker(Generic[Q]):
    """Asks a function. `tell` is called from another thread when there are answers to `take`.

    `open` comes first; `ask` and `take` are for one thread only. After `close` nothing is told any more.
    """

    def __init__(
        self,
        function: Callable[[Row], Any],
        patience: Patience,
        threads: int,
        tell: Callable[[], None],
        name: str,
    ) -> None:
        self._function = function
        self._patience = patience
        self._tell = tell
        self._loop = asyncio.new_event_loop()
        self._pool = None if is_asynchronous(function) else ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running: set[asyncio.Task[None]] = set()
        self._answers: deque[Answer[Q]] = deque()
        self._is_told = False
        self._has_answer = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-loop", daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Any], timeout_s: float | None = None) -> None:
        """Have something of the user's done on the loop, a coroutine function or another one, and wait for it."""

        async def done() -> None:
            made = call()
            if inspect.isawaitable(made):
                await made

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(timeout_s)

    def ask(self, questions: Sequence[tuple[Q, Row]]) -> None:
        """Ask all of them at the same time."""
        if questions:
            self._loop.call_soon_threadsafe(self._begin, questions)

    def take(self) -> list[Answer[Q]]:
        """The answers that have come since the last call."""
        # Before they are taken: what comes from now on is told again.
        self._is_told = False
        self._has_answer.clear()
        taken: list[Answer[Q]] = []
        while self._answers:
            taken.append(self._answers.popleft())
        return taken

    def wait(self, timeout_s: float) -> None:
        """Wait until there is an answer to take, or so long."""
        self._has_answer.wait(timeout_s)

    def close(self, call: Callable[[], Any] | None = None) -> None:
        """Give up all questions, have `call` done on the loop, and end."""
        self._tell = _nothing
        try:
            self.run(self._give_up, _CLOSE_TIMEOUT_S)
            if call is not None:
                self.run(call, _CLOSE_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._pool is not None:
                # A blocking call cannot be broken off; whoever makes it has to see to its end.
                self._pool.shutdown(wait=False, cancel_futures=True)
            self._thread.join(_CLOSE_TIMEOUT_S)

    # On the loop's thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self, questions: Sequence[tuple[Q, Row]]) -> None:
        for question, row in questions:
            task = self._loop.create_task(self._asked(question, row))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _asked(self, question: Q, row: Row) -> None:
        patience = asyncio.timeout(self._patience.timeout_s)
        try:
            async with patience:
                answer = Answer(question, await self._tried(row))
        except Exception as error:
            answer = Answer(question, error=error, is_late=patience.expired())
        self._answers.append(answer)
        self._has_answer.set()
        if not self._is_told:
            self._is_told = True
            self._tell()

    async def _tried(self, row: Row) -> Any:
        pause_s = self._patience.backoff_s
        for _ in range(self._patience.retries):
            try:
                return await self._called(dict(row))
            except Exception:  # the last time it is told
                await asyncio.sleep(pause_s)
                pause_s *= 2
        return await self._called(row)

    async def _called(self, row: Row) -> Any:
        if self._pool is None:
            return await self._function(row)
        made = await self._loop.run_in_executor(self._pool, self._function, row)
        return await made if inspect.isawaitable(made) else made

    async def _give_up(self) -> None:
        running = [task for task in self._running if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def is_asynchronous(function: Any) -> bool:
    """Whether calling it gives something to be awaited, as far as that can be seen."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _nothing() -> None:
    """Nobody is told any more."""

"""Calls of a user function on other threads: coroutines on an event loop, or blocking calls in a thread pool."""

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
"""Limit for the user's `close`, and for the thread to end."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[R]):
    """The outcome of a request: a result, an error, or neither in time."""

    request: R
    result: Any = None
    error: Exception | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The timeout of a call including retries, and how often to retry after an error, with doubling pauses."""

    timeout_s: float
    retries: int
    backoff_s: float


class AsyncCalls(Generic[R]):
    """Calls a function for requests. `notify` is called from another thread when there are outcomes to `take`.

    One thread calls `start` and `take`. After `close`, `notify` is not called again.
    """

    def __init__(
        self, function: Callable[[Row], Any], policy: RetryPolicy, threads: int, notify: Callable[[], None], name: str
    ) -> None:
        self._function = function
        self._policy = policy
        self._notify = notify
        self._loop = asyncio.new_event_loop()
        self._pool = None if is_asynchronous(function) else ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running: set[asyncio.Task[None]] = set()
        self._outcomes: deque[CallOutcome[R]] = deque()
        self._is_notified = False
        self._has_outcome = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{name}-loop", daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Any], timeout_s: float | None = None) -> None:
        """Run a user function, coroutine or not, on the loop's thread, and wait for it."""

        async def done() -> None:
            made = call()
            if inspect.isawaitable(made):
                await made

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(timeout_s)

    def start(self, requests: Sequence[tuple[R, Row]]) -> None:
        """Call the function for all requests at the same time."""
        if requests:
            self._loop.call_soon_threadsafe(self._begin, requests)

    def take(self) -> list[CallOutcome[R]]:
        """The outcomes since the last call."""
        # Ahead of taking them, so that later outcomes notify again.
        self._is_notified = False
        self._has_outcome.clear()
        taken: list[CallOutcome[R]] = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        return taken

    def wait(self, timeout_s: float) -> None:
        """Wait for an outcome, at most `timeout_s`."""
        self._has_outcome.wait(timeout_s)

    def close(self, call: Callable[[], Any] | None = None) -> None:
        """Cancel all requests, run `call` on the loop, and end."""
        self._notify = lambda: None
        try:
            self.run(self._cancel, _CLOSE_TIMEOUT_S)
            if call is not None:
                self.run(call, _CLOSE_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            if self._pool is not None:
                # Blocking calls cannot be interrupted: see `join`.
                self._pool.shutdown(wait=False, cancel_futures=True)
            self._thread.join(_CLOSE_TIMEOUT_S)

    def join(self) -> None:
        """Wait, after `close`, until all calls have returned and all threads have ended, however long that takes."""
        if self._pool is not None:
            self._pool.shutdown()
        self._thread.join()

    # On the loop's thread.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    def _begin(self, requests: Sequence[tuple[R, Row]]) -> None:
        for request, row in requests:
            task = self._loop.create_task(self._complete(request, row))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _complete(self, request: R, row: Row) -> None:
        timeout = asyncio.timeout(self._policy.timeout_s)
        try:
            async with timeout:
                outcome = CallOutcome(request, await self._call_with_retries(row))
        except Exception as error:
            outcome = CallOutcome(request, error=error, is_late=timeout.expired())
        self._outcomes.append(outcome)
        self._has_outcome.set()
        if not self._is_notified:
            self._is_notified = True
            self._notify()

    async def _call_with_retries(self, row: Row) -> Any:
        pause_s = self._policy.backoff_s
        for _ in range(self._policy.retries):
            try:
                return await self._call(dict(row))
            except Exception:  # only the last call's error counts
                await asyncio.sleep(pause_s)
                pause_s *= 2
        return await self._call(row)

    async def _call(self, row: Row) -> Any:
        if self._pool is None:
            return await self._function(row)
        made = await self._loop.run_in_executor(self._pool, self._function, row)
        return await made if inspect.isawaitable(made) else made

    async def _cancel(self) -> None:
        running = [task for task in self._running if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def is_asynchronous(function: Any) -> bool:
    """Whether calling it returns an awaitable, as far as can be seen without calling it."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)

"""Blocking calls on threads, with their answers on the loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from snapline.errors import UserCodeError

T = TypeVar("T")


def post_to(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    """Call something on the loop soon, unless it is closed. Any thread."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)


class Background:
    """A pool of threads that serves one loop. `run` and `call` belong on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int, name: str) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(threads, name)
        self._futures: set[Future[Any]] = set()

    def run(self, call: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None]) -> None:
        """Call it on a thread; what it returns or raises comes back as an event of the loop."""

        def answer(over: Future[T]) -> None:
            self._futures.discard(over)
            error = over.exception()
            if error is None:
                done(over.result())
            else:
                failed(error if isinstance(error, Exception) else UserCodeError(f"a call gave up: {error!r}"))

        def tell(over: Future[T]) -> None:
            if not over.cancelled():
                post_to(self._loop, answer, over)

        future = self._pool.submit(call)
        self._futures.add(future)
        future.add_done_callback(tell)

    async def call(self, call: Callable[[], T]) -> T:
        """Call it on a thread and wait for the answer."""
        future = self._pool.submit(call)
        self._futures.add(future)
        try:
            return await asyncio.wrap_future(future)
        finally:
            self._futures.discard(future)

    def close(self, timeout_s: float) -> bool:
        """End all threads; false if a call does not return in time, and its thread is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        _, running = concurrent.futures.wait(set(self._futures), timeout_s)
        if not running:
            self._pool.shutdown(wait=True)
        return not running

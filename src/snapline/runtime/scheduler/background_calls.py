"""Blocking calls in a thread pool, with their results on the loop."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from snapline.errors import UserCodeError
from snapline.runtime.scheduler.call_watch import CallWatch
from snapline.runtime.scheduler.scheduler import Scheduler

T = TypeVar("T")


class BackgroundCalls:
    """A thread pool that serves one loop. Call `run` on the loop."""

    def __init__(self, scheduler: Scheduler, threads: int, name: str) -> None:
        self._scheduler = scheduler
        self._pool: Executor = scheduler.executor(threads, name)
        self._futures: set[Future[Any]] = set()

    def run(
        self, call: Callable[[], T], done: Callable[[T], None], failed: Callable[[Exception], None], what: str = ""
    ) -> None:
        """Make the call on a thread; `done` or `failed` gets its result or error on the loop.

        A warning says so while it does not return: `what` names it, and is empty if somebody else warns.
        """
        watch = CallWatch(self._scheduler, what) if what else None

        def answer(over: Future[T]) -> None:
            self._futures.discard(over)
            if watch is not None:
                watch.end()
            error = over.exception()
            if error is None:
                done(over.result())
            else:
                failed(error if isinstance(error, Exception) else UserCodeError(f"a call gave up: {error!r}"))

        def post_answer(over: Future[T]) -> None:
            if over.cancelled():
                self._futures.discard(over)  # `wait` does not count it as done
            else:
                self._scheduler.post(answer, over)

        future = self._pool.submit(call)
        self._futures.add(future)
        future.add_done_callback(post_answer)

    def close(self, timeout_s: float) -> bool:
        """End all threads. Returns False if a call does not return in time and its thread is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        _, running = concurrent.futures.wait(set(self._futures), timeout_s)
        if not running:
            self._pool.shutdown(wait=True)
        return not running

"""A thread pool that never keeps a process from ending."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from typing import Any


class DaemonPool(Executor):
    """A `ThreadPoolExecutor` of daemon threads: a call that hangs is left behind when the program ends.

    Calls are made in the context of their caller, so that what they log says what it is about.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._limit = threads
        self._name = name
        self._condition = threading.Condition(threading.Lock())
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._is_shut = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._condition:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._queue.append((future, partial(copy_context().run, fn, *args, **kwargs)))
            if self._idle >= len(self._queue):
                self._condition.notify()
            elif len(self._threads) < self._limit:
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._work, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # whoever waits for the future gets it
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del taken, future, call  # or they would live until the next call

    def _take(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Wait for the next call. Returns None once the pool is shut and its queue is empty."""
        with self._condition:
            self._idle += 1
            while not self._queue and not self._is_shut:
                self._condition.wait()
            self._idle -= 1
            return self._queue.popleft() if self._queue else None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._condition:
            self._is_shut = True
            dropped = list(self._queue) if cancel_futures else []
            if cancel_futures:
                self._queue.clear()
            self._condition.notify_all()
        for future, _ in dropped:
            future.cancel()
            future.set_running_or_notify_cancel()
        if wait:
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join()

"""A scheduler on an asyncio loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any

from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.storage.objects.daemon_pool import DaemonPool


class LoopScheduler:
    """`Scheduler` on the loop of another thread. Its calls are made in `context`, whoever asks for them."""

    wall_ms = staticmethod(wall_clock_ms)

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context | None = None) -> None:
        self.time_s = loop.time
        self._loop = loop
        self._context = context or copy_context()

    def now_ms(self) -> int:
        return int(self.time_s() * 1000)

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, call, *arguments, context=self._context)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call, *arguments, context=self._context)

    def executor(self, threads: int, name: str) -> Executor:
        return DaemonPool(threads, name)

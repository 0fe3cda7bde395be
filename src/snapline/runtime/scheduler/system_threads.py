"""Real threads and clocks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any

from snapline.runtime.scheduler.mailbox import Mailbox, ThreadMailbox
from snapline.runtime.scheduler.steady_clock import SteadyClock
from snapline.storage.objects.daemon_pool import DaemonPool

_CLOCK = SteadyClock()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class SystemThreads:
    """`Threads` of this process."""

    process_id = staticmethod(os.getpid)
    now_ms = staticmethod(_CLOCK.now_ms)
    time_s = staticmethod(time.monotonic)

    def thread(self, call: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=copy_context().run, args=(call,), name=name, daemon=True)

    def mailbox(self, clock: Callable[[], int]) -> Mailbox:
        return ThreadMailbox(clock)

    def executor(self, threads: int, name: str) -> Executor:
        return DaemonPool(threads, name)


class ThreadTimers:
    """Makes calls later, each on a thread of its own; for code that has no loop."""

    time_s = staticmethod(time.monotonic)

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> threading.Timer:
        timer = threading.Timer(delay_s, call, arguments)
        timer.daemon = True
        timer.start()
        return timer

"""Real threads and clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from snapline.runtime.scheduler.mailbox import Mailbox, ThreadMailbox


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class SystemThreads:
    """`Threads` of this process."""

    now_ms = staticmethod(wall_clock_ms)
    time_s = staticmethod(time.monotonic)

    def thread(self, call: Callable[[], None], name: str) -> threading.Thread:
        return threading.Thread(target=call, name=name, daemon=True)

    def mailbox(self, clock: Callable[[], int]) -> Mailbox:
        return ThreadMailbox(clock)

    def executor(self, threads: int, name: str) -> Executor:
        return ThreadPoolExecutor(threads, name)

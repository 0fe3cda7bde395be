"""The kernel as the shells see it: the scheduler and threads of one simulated process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from snapline.devtools.simulator.kernel import Fiber, Kernel, Process, Scheduled
from snapline.runtime.scheduler.mailbox import Mail, Mailbox, MailboxTimer
from snapline.runtime.scheduler.steady_clock import SteadyClock

MAX_CALL_DELAY_MS = 4


class KernelScheduler:
    """`Scheduler` of a simulated driver."""

    def __init__(self, kernel: Kernel, process: Process) -> None:
        self._kernel = kernel
        self._process = process

    def now_ms(self) -> int:
        return self._kernel.now_ms

    def wall_ms(self) -> int:
        return self._kernel.now_ms + self._kernel.wall_ahead_ms + self._process.wall_ahead_ms

    def time_s(self) -> float:
        return self._kernel.now_ms / 1000

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Scheduled:
        return self._kernel.after(max(round(delay_s * 1000), 0), self._process, call, *arguments)

    def post(self, call: Callable[..., None], *arguments: Any) -> None:
        self._kernel.after(0, self._process, call, *arguments)

    def executor(self, threads: int, name: str) -> Executor:
        return KernelExecutor(self._kernel, self._process, threads, name)


class KernelThreads(KernelScheduler):
    """`Threads` of a simulated process. `turn_ms` maps a thread's name to the duration of its turns."""

    def __init__(self, kernel: Kernel, process: Process, turn_ms: Callable[[str], int]) -> None:
        super().__init__(kernel, process)
        self._turn_ms = turn_ms
        self._clock = SteadyClock(lambda: self.wall_ms() * 1_000_000, lambda: kernel.now_ms * 1_000_000)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def process_id(self) -> int:
        return self._process.id

    def thread(self, call: Callable[[], None], name: str) -> KernelThread:
        return KernelThread(self._kernel, self._process, call, name)

    def mailbox(self, clock: Callable[[], int]) -> Mailbox:
        return KernelMailbox(self._kernel, self._process, clock, self._turn_ms)


class KernelThread:
    """A thread that is a fiber."""

    def __init__(self, kernel: Kernel, process: Process, call: Callable[[], None], name: str) -> None:
        self._kernel = kernel
        self._process = process
        self._call = call
        self._name = name
        self._fiber: Fiber | None = None
        self._waiting: list[Fiber] = []
        self._is_over = False

    def start(self) -> None:
        self._fiber = self._kernel.spawn(self._process, self._name, self._run)

    def _run(self) -> None:
        try:
            self._call()
        finally:
            self._is_over = True
            for fiber in self._waiting:
                self._kernel.resume(fiber)

    def join(self, timeout: float | None = None) -> None:
        if not self.is_alive():
            return
        fiber = self._kernel.fiber
        self._waiting.append(fiber)
        timer = None if timeout is None else self._kernel.after(round(timeout * 1000), fiber.process, self._stop, fiber)
        self._kernel.pause()
        if timer is not None:
            timer.cancel()

    def _stop(self, fiber: Fiber) -> None:
        if fiber in self._waiting:
            self._waiting.remove(fiber)
            fiber.switch()

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._is_over


class KernelMailbox(Mailbox):
    """A mailbox owned by a fiber. A turn begins with `clear` and takes simulated time."""

    def __init__(
        self, kernel: Kernel, process: Process, clock: Callable[[], int], turn_ms: Callable[[str], int]
    ) -> None:
        super().__init__(clock)
        self._kernel = kernel
        self._process = process
        self._turn_ms = turn_ms
        self._sleeper: Fiber | None = None
        self._latest_ms = clock()

    def at(self, at_ms: int, call: Mail) -> MailboxTimer:
        self._kernel.check_delay(at_ms - self._clock())
        return super().at(at_ms, call)

    def wake(self) -> None:
        self._is_woken = True
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            self._kernel.resume(sleeper)

    def wait(self, at_most_s: float | None = None) -> None:
        if self._is_woken:
            return
        kernel = self._kernel
        fiber = self._sleeper = kernel.fiber
        timeout_s = self.timeout_s() if at_most_s is None else at_most_s
        timer = (
            None if timeout_s is None else kernel.after(round(timeout_s * 1000), self._process, self._wake_up, fiber)
        )
        kernel.pause()
        if timer is not None:
            timer.cancel()

    def _wake_up(self, fiber: Fiber) -> None:
        if self._sleeper is fiber:
            self._sleeper = None
            fiber.switch()

    def clear(self) -> None:
        self._is_woken = False
        now_ms = self._clock()
        if now_ms < self._latest_ms:
            raise self._kernel.violated(f"a clock went back by {self._latest_ms - now_ms} ms")
        self._latest_ms = now_ms
        turn_ms = self._turn_ms(self._kernel.fiber.name)
        if turn_ms:
            self._kernel.sleep(turn_ms)


class KernelExecutor(Executor):
    """A pool of fibers. Calls start in order, up to `threads` at the same time."""

    def __init__(self, kernel: Kernel, process: Process, threads: int, name: str) -> None:
        self._kernel = kernel
        self._process = process
        self._threads = threads
        self._name = name
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._is_shut = False
        self._waiting: list[Fiber] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._queue.append((future, lambda: fn(*args, **kwargs)))
        self._pump()
        return future

    def _pump(self) -> None:
        while self._queue and self._running < self._threads and self._process.alive:
            self._running += 1
            delay_ms = self._kernel.between(0, MAX_CALL_DELAY_MS)
            self._kernel.spawn(self._process, self._name, partial(self._run, *self._queue.popleft()), delay_ms)

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        if future.set_running_or_notify_cancel():
            try:
                result = call()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._running -= 1
        self._pump()
        if not self._running:
            for fiber in self._waiting:
                self._kernel.resume(fiber)
            self._waiting.clear()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut = True
        if cancel_futures:
            cancelled, self._queue = self._queue, deque()
            for future, _ in cancelled:
                future.cancel()
        if wait and self._running:
            self._waiting.append(self._kernel.fiber)
            self._kernel.pause()

"""A process on the simulator's kernel: time, threads and calls of shells, without real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.kernel_scheduler import KernelScheduler, KernelThreads

T = TypeVar("T")


class Bench:
    """One simulated process. Nothing happens but in `run`, `advance` and `blocking`."""

    def __init__(self, seed: int = 1) -> None:
        self.kernel = Kernel(seed)
        self.process = Process("it")
        self.scheduler = KernelScheduler(self.kernel, self.process)
        self.threads = KernelThreads(self.kernel, self.process, lambda _: 0)

    def run(self, until: Callable[[], bool] | None = None, *, max_steps: int = 10_000) -> None:
        """Let things happen until this is so, or until nothing is left to happen."""
        for _ in range(max_steps):
            if until is not None and until():
                return
            if not self.kernel.step():
                assert until is None or until(), "nothing is left to happen"
                return
        raise AssertionError("it does not come to an end")

    def advance(self, delay_ms: int) -> None:
        """Let everything happen that is due within a time."""
        is_over: list[bool] = []
        self.kernel.after(delay_ms, None, is_over.append, True)
        self.run(lambda: bool(is_over))

    def blocking(self, call: Callable[[], T]) -> T:
        """Make a call that blocks on a thread of the process. Returns or raises what it does."""
        answers: list[T] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                answers.append(call())
            except Exception as error:
                errors.append(error)

        self.kernel.spawn(self.process, "caller", body)
        self.run(lambda: bool(answers or errors))
        if errors:
            raise errors[0]
        return answers[0]

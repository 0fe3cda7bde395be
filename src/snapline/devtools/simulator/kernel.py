"""Time, chance and order: everything in a simulated run happens through one seeded scheduler.

Blocking code runs in greenlets: a blocking call returns control to the kernel, which runs other things and resumes the
call when it is due. Only one thing runs at a time, so a seed gives the same run everywhere.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

T = TypeVar("T")


WALL_START_MS = 1_700_000_000_000
"""The wall clock when a run begins. Far from its monotonic clock, so that nothing can mix them up."""


class ViolationError(Exception):
    """A checker caught the system doing something it must never do.

    Code inside the system raises what `Kernel.violated` returns, which records it: shells may catch the error.
    """


class Process:
    """Something that can die or freeze for a while. Its scheduled calls die or wait with it."""

    __slots__ = ("alive", "frozen_until_ms", "id", "name", "on_death", "wall_ahead_ms")

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = zlib.crc32(name.encode()) % 30_000
        self.alive = True
        self.frozen_until_ms = 0
        self.wall_ahead_ms = 0
        self.on_death: list[Callable[[], None]] = []

    def die(self) -> None:
        """Die at once, without notice."""
        if self.alive:
            self.alive = False
            for call in self.on_death:
                call()


class Scheduled:
    """A call that happens unless it is cancelled or its process dies."""

    __slots__ = ("args", "call", "owner")

    def __init__(self, owner: Process | None, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.owner = owner
        self.call: Callable[..., None] | None = call
        self.args = args

    def cancel(self) -> None:
        self.call = None


class Fiber(greenlet):  # type: ignore[misc]  # it has no types
    """A thread of a simulated process. It never continues once its process is dead."""

    def __init__(self, process: Process, name: str, body: Callable[[], None], hub: greenlet) -> None:
        super().__init__(body, hub)
        self.process = process
        self.name = name


class Kernel:
    """The scheduler of one run. One seed gives one run, on every machine."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311  # a seed repeats it; no secret
        self.now_ms = 0
        self.wall_ahead_ms = WALL_START_MS
        """How far the wall clocks of all machines are ahead of `now_ms`."""
        self.max_delay_ms: int | None = None
        """Nothing is planned further ahead; what is was planned by a clock that was set."""
        self.steps = 0
        self.coverage: Counter[str] = Counter()
        self.story: list[str] | None = [] if story else None
        self.violation = ""
        self.on_fiber: Callable[[], None] | None = None
        """Called first in every fiber, for line tracing."""
        self._heap: list[tuple[int, int, Scheduled]] = []
        self._sequence = 0
        self._hub = getcurrent()
        self._fibers: set[Fiber] = set()
        self._is_over = False

    def after(self, delay_ms: int, owner: Process | None, call: Callable[..., None], *args: Any) -> Scheduled:
        """Schedule a call. Calls happen in order of time, then of scheduling."""
        self.check_delay(delay_ms)
        scheduled = Scheduled(owner, call, args)
        self._sequence += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._sequence, scheduled))
        return scheduled

    def check_delay(self, delay_ms: int) -> None:
        if self.max_delay_ms is not None and delay_ms > self.max_delay_ms:
            raise self.violated(f"something is planned {delay_ms} ms ahead; was a clock set?")

    def step(self) -> bool:
        """Make the next call. Returns False if none is left."""
        heap = self._heap
        while heap:
            at_ms, sequence, scheduled = heappop(heap)
            call, owner = scheduled.call, scheduled.owner
            if call is None or (owner is not None and not owner.alive):
                continue
            if owner is not None and owner.frozen_until_ms > at_ms:
                heappush(heap, (owner.frozen_until_ms, sequence, scheduled))
                continue
            self.now_ms = at_ms
            self.steps += 1
            call(*scheduled.args)
            return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether nothing will happen any more."""
        return not self._heap

    # Fibers.

    def spawn(self, process: Process, name: str, body: Callable[[], None], delay_ms: int = 0) -> Fiber:
        """Run `body` in a new fiber. An error it raises ends the simulation."""

        def run() -> None:
            if self.on_fiber is not None:
                self.on_fiber()
            try:
                body()
            finally:
                self._fibers.discard(fiber)

        fiber = Fiber(process, name, run, self._hub)
        self._fibers.add(fiber)
        self.after(delay_ms, process, fiber.switch)
        return fiber

    @property
    def fiber(self) -> Fiber:
        """The running fiber. There is none on a loop: a blocking call there is a defect."""
        current = getcurrent()
        assert isinstance(current, Fiber), "a blocking call outside of a thread"
        return current

    def pause(self) -> None:
        """Let other things happen until the running fiber is resumed."""
        if self._is_over:
            raise GreenletExit
        self._hub.switch()

    def resume(self, fiber: Fiber, delay_ms: int = 0) -> Scheduled:
        """Continue a paused fiber."""
        return self.after(delay_ms, fiber.process, fiber.switch)

    def sleep(self, delay_ms: int) -> None:
        """Block the running fiber."""
        self.resume(self.fiber, delay_ms)
        self.pause()

    def outside(self, delay_ms: int, operation: Callable[[], T]) -> T:
        """Block the running fiber until something outside its process has carried out an operation.

        The operation happens even if the process dies in between: it was under way.
        """
        fiber, outcome = self.fiber, list[tuple[Any, BaseException | None]]()

        def happen() -> None:
            try:
                outcome.append((operation(), None))
            except Exception as error:
                outcome.append((None, error))
            if fiber.process.alive:
                self.resume(fiber)

        self.after(delay_ms, None, happen)
        self.pause()
        ((value, error),) = outcome
        if error is not None:
            raise error
        result: T = value
        return result

    def end(self) -> None:
        """Unwind whatever still blocks at the end of the run. Nothing that happens now counts."""
        self._is_over = True
        self._heap.clear()
        for fiber in list(self._fibers):
            fiber.process.alive = False
        while self._fibers:
            fiber = self._fibers.pop()
            if fiber:
                fiber.throw(GreenletExit)
        self._heap.clear()

    # Chance and story.

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))

    def violated(self, what: str) -> ViolationError:
        """Record a violation, which ends the run. Returns the error to raise."""
        self.violation = self.violation or what
        return ViolationError(what)

    def cover(self, what: str) -> None:
        self.coverage[what] += 1

    def tell(self, who: str, what: str, *args: object) -> None:
        """Add a line to the story, if one is recorded."""
        if self.story is not None:
            self.story.append(f"{self.now_ms:6d} ms  {who:<14} {what.format(*args)}")

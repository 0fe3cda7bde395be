"""Time, chance and order: everything in a simulated run happens through one seeded scheduler."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class ViolationError(Exception):
    """A checker caught the system at something it must never do."""


class Process:
    """Something that can die, or stand still for a while. What was scheduled for it dies or waits with it."""

    __slots__ = ("alive", "frozen_until_ms", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen_until_ms = 0


class Scheduled:
    """A call that will happen unless it is cancelled or its process dies."""

    __slots__ = ("args", "call", "owner")

    def __init__(self, owner: Process | None, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.owner = owner
        self.call: Callable[..., None] | None = call
        self.args = args

    def cancel(self) -> None:
        self.call = None


class Kernel:
    """The scheduler of one run. One seed gives one run, on every machine."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.random = random.Random(seed)  # noqa: S311  # chance that one seed repeats, no secret
        self.now_ms = 0
        self.steps = 0
        self.coverage: Counter[str] = Counter()
        self.story: list[str] | None = [] if story else None
        self._heap: list[tuple[int, int, Scheduled]] = []
        self._sequence = 0

    def after(self, delay_ms: int, owner: Process | None, call: Callable[..., None], *args: Any) -> Scheduled:
        """Call later, in order of time and then of scheduling."""
        scheduled = Scheduled(owner, call, args)
        self._sequence += 1
        heappush(self._heap, (self.now_ms + delay_ms, self._sequence, scheduled))
        return scheduled

    def step(self) -> bool:
        """Let the next thing happen; false if nothing is left."""
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

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))

    def cover(self, what: str) -> None:
        self.coverage[what] += 1

    def tell(self, who: str, what: str, *args: object) -> None:
        """A line of the story; costs nothing unless somebody reads it."""
        if self.story is not None:
            self.story.append(f"{self.now_ms:6d} ms  {who:<14} {what.format(*args)}")

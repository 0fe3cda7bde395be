"""Effects of machines, carried out one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

CarryOut: TypeAlias = Callable[[Any], None]


class EffectQueue:
    """Carries out effects in order; only one thread uses it.

    Carrying out an effect may feed a machine and so add effects. They come next, in the order in which they were
    added and ahead of what was queued before: an effect is done when all that follows from it is done. Nothing is
    carried out inside the call that adds it, unless the queue is idle.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[CarryOut, Any]] = deque()
        self._added: list[tuple[CarryOut, Any]] = []
        self._is_draining = False

    def add(self, carry_out: CarryOut, effects: Iterable[Any]) -> None:
        """Queue effects, and carry them out now if no effect is being carried out."""
        self._added.extend((carry_out, effect) for effect in effects)
        if self._added and not self._is_draining:
            self._drain()

    def _drain(self) -> None:
        queue, added = self._queue, self._added
        self._is_draining = True
        try:
            while added or queue:
                if added:
                    queue.extendleft(reversed(added))
                    added.clear()
                carry_out, effect = queue.popleft()
                carry_out(effect)
        finally:
            # After an error nothing that followed from the effects counts any more.
            self._is_draining = False
            queue.clear()
            added.clear()

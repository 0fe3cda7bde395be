"""Carries out the effects of machines in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

CarryOut: TypeAlias = Callable[[Any], None]


class EffectQueue:
    """Carries out effects in order. Used by one thread.

    Carrying out an effect may feed a machine and so add effects. Those come next, in the order they were added and
    ahead of everything queued before: an effect is done when all that follows from it is done. `add` carries nothing
    out itself unless the queue is idle.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[CarryOut, Any]] = deque()
        self._added: list[tuple[CarryOut, Any]] = []
        self._is_draining = False

    def add(self, carry_out: CarryOut, effects: Iterable[Any]) -> None:
        """Queue effects; carry them out now unless an effect is being carried out."""
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
            # After an error the remaining effects no longer count.
            self._is_draining = False
            queue.clear()
            added.clear()

"""Checkpoints that the driver starts at a task, until the task takes them up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from snapline.protocol.messages import TriggerCheckpoint


class TriggerBox:
    """Triggers of one task. `add` may be called by any thread, the rest by the task's."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._triggers: deque[TriggerCheckpoint] = deque()
        self._guard = threading.Lock()
        self._is_closed = False

    def add(self, trigger: TriggerCheckpoint) -> bool:
        """Keep a trigger and call `wake`. Returns False once the box is closed."""
        with self._guard:
            if not self._is_closed:
                self._triggers.append(trigger)
                self._wake()
            return not self._is_closed

    def take(self) -> TriggerCheckpoint:
        """Returns the oldest trigger; `wake` was called once for each."""
        return self._triggers.popleft()

    def close(self) -> list[TriggerCheckpoint]:
        """The task has finished. Returns what it has not taken."""
        with self._guard:
            self._is_closed = True
            return list(self._triggers)

"""Trouble that lasts, told in the log at once and then at growing intervals."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_FIRST_S = 10.0
_LONGEST_S = 600.0

_logger = logging.getLogger("snapline.kafka")


class Trouble:
    """One kind of trouble. `seen` may be called often; `over` says when it is over, if anything was told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since_s: float | None = None
        self._seen_s = 0.0
        self._due_s = 0.0
        self._pause_s = _FIRST_S

    @property
    def lasts(self) -> bool:
        return self._since_s is not None

    @property
    def is_due(self) -> bool:
        """Whether it lasts, and is to be told of again."""
        return self._since_s is not None and self._clock() >= self._due_s

    def seen(self, text: str) -> None:
        """It is there, or still there."""
        now_s = self._seen_s = self._clock()
        if self._since_s is None:
            self._since_s, self._due_s, self._pause_s = now_s, now_s, _FIRST_S
        if now_s >= self._due_s:
            lasted_s = now_s - self._since_s
            _logger.warning("%s%s", text, f" (for {lasted_s:.0f} s now)" if lasted_s >= 1 else "")
            self._due_s = now_s + self._pause_s
            self._pause_s = min(self._pause_s * 2, _LONGEST_S)

    def over(self, text: str, settled_s: float = 0.0) -> None:
        """It is not there any more; ignored if it was seen less than `settled_s` ago."""
        if self._since_s is not None and self._clock() >= self._seen_s + settled_s:
            _logger.info("%s, after %.0f s", text, self._clock() - self._since_s)
            self._since_s = None

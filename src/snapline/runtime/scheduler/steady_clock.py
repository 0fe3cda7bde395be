"""Processing time: the wall clock, but it never goes back."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

SLOWDOWN = 10
"""A clock that is ahead of the wall clock loses a tenth of the time that passes until both agree."""

_AGREES_NS = 10_000_000
"""Two clocks are not read at the same moment, so a difference below this means nothing."""

_WARN_NS = 1_000_000_000

_log = logging.getLogger(__name__)


class SteadyClock:
    """Follows the wall clock when it goes ahead. When that is set back, goes on a little slower until both agree.

    Otherwise timers would wait until the wall clock is back where it was, and windows would be computed twice. Any
    thread. `time_ns` must never go back.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, time_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall_ns = wall_ns
        self._time_ns = time_ns
        self._lock = threading.Lock()
        self._ahead_ns = wall_ns() - time_ns()
        """What to add to `time_ns`."""
        self._slowed_ns: int | None = None
        """Up to when the clock has been slowed down, or None while it agrees with the wall clock."""

    def now_ms(self) -> int:
        wall_ns = self._wall_ns()
        now_ns = self._time_ns() + self._ahead_ns
        if self._slowed_ns is not None or not 0 <= now_ns - wall_ns < _AGREES_NS:
            now_ns = self._adjusted()
        return now_ns // 1_000_000

    def _adjusted(self) -> int:
        with self._lock:
            wall_ns, time_ns = self._wall_ns(), self._time_ns()
            difference_ns = time_ns + self._ahead_ns - wall_ns
            if difference_ns < 0:
                self._ahead_ns -= difference_ns
                self._slowed_ns = None
            elif difference_ns < _AGREES_NS:
                self._slowed_ns = None
            elif self._slowed_ns is None:
                self._slowed_ns = time_ns
                if difference_ns >= _WARN_NS:
                    _log.warning(
                        "the wall clock was set back by %.0f s; processing time goes on, a tenth slower until both "
                        "agree",
                        difference_ns / 1e9,
                    )
            else:
                self._ahead_ns -= min((time_ns - self._slowed_ns) // SLOWDOWN, difference_ns)
                self._slowed_ns = time_ns
            return time_ns + self._ahead_ns

"""A clock that stands still until the test moves it."""

from __future__ import annotations

import uuid
from weakref import WeakValueDictionary

from snapline.config import Duration, duration_ms
from snapline.errors import ConfigurationError

START_MS = 1_000_000
"""Where a manual clock starts unless the test says otherwise."""

_clocks: WeakValueDictionary[str, ManualClock] = WeakValueDictionary()


class ManualClock:
    """Milliseconds since 1970 that pass only by `advance`. Call it to read it.

    Give it to `OperatorHarness.of(stream, clock=clock)`, and to functions of your own that take a clock. A function is
    pickled on its way into a job; a copy of the clock in it is the clock itself, so the test moves the time of every
    function in its process. In another process (`ProcessCluster`, Spark) unpickling it raises `ConfigurationError`.
    Any thread may read it; one thread moves it.

        clock = ManualClock()
        clock.advance("5s")
        assert clock() == ManualClock()() + 5_000
    """

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms
        self._key = uuid.uuid4().hex
        _clocks[self._key] = self

    def __call__(self) -> int:
        return self.now_ms

    def __repr__(self) -> str:
        return f"ManualClock({self.now_ms})"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _clock, (self._key,)

    def advance(self, duration: Duration) -> int:
        """Move the clock on and return the new time. `ConfigurationError` if `duration` is negative or has no unit."""
        self.now_ms += duration_ms(duration, setting="advance")
        return self.now_ms


def _clock(key: str) -> ManualClock:
    found = _clocks.get(key)
    if found is None:
        raise ConfigurationError(
            "a ManualClock works only in the process that made it, and as long as the test holds it; use a "
            "ThreadCluster or an OperatorHarness"
        )
    return found

"""Whether a job restarts after a failure, and when."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from snapline.config import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from snapline.errors import EngineError

_LARGEST_BACKOFF_MS = 1e300
"""Limit on delays: exponential growth exceeds the range of a float after some hundred failures."""


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """What to do about one failure.

    `delay_ms` counts from the failure and is 0 without a restart. A `merged` failure belongs to the restart that is
    planned already: it counts no attempt and keeps the planned time.
    """

    restart: bool
    delay_ms: int = 0
    merged: bool = False


_NO_RESTART = RestartDecision(restart=False)


class RestartPolicy(ABC):
    """The state of one job's restart strategy, over all its attempts.

    Call `failed` once per failure that should restart the job. A clock that goes back counts as standing still.
    """

    def __init__(self) -> None:
        self._now_ms: int | None = None

    @staticmethod
    def for_config(config: RestartStrategy) -> RestartPolicy:
        """A new policy that has seen no failure."""
        match config:
            case NoRestart():
                return _Never()
            case FixedDelay():
                return _Fixed(config)
            case FailureRate():
                return _Rate(config)
            case ExponentialDelay():
                return _Exponential(config)

    def failed(self, now_ms: int, jitter: float) -> RestartDecision:
        """Decide about a failure at `now_ms`; `jitter` is uniform from -1 (shortest delay) to 1 (longest)."""
        if not -1 <= jitter <= 1:
            raise EngineError(f"jitter {jitter} is outside -1 to 1")
        self._now_ms = now_ms if self._now_ms is None else max(now_ms, self._now_ms)
        return self._decide(self._now_ms, jitter)

    @abstractmethod
    def _decide(self, now_ms: int, jitter: float, /) -> RestartDecision: ...


class _Never(RestartPolicy):
    def _decide(self, _now_ms: int, _jitter: float, /) -> RestartDecision:
        return _NO_RESTART


class _Fixed(RestartPolicy):
    def __init__(self, config: FixedDelay) -> None:
        super().__init__()
        self._config = config
        self._attempts = 0

    def _decide(self, _now_ms: int, _jitter: float, /) -> RestartDecision:
        self._attempts += 1
        if self._attempts > self._config.attempts:
            return _NO_RESTART
        return RestartDecision(restart=True, delay_ms=self._config.delay_ms)


class _Rate(RestartPolicy):
    def __init__(self, config: FailureRate) -> None:
        super().__init__()
        self._config = config
        # One more than allowed is enough to see that there were too many.
        self._failures_ms: deque[int] = deque(maxlen=config.max_failures_per_interval + 1)

    def _decide(self, now_ms: int, _jitter: float, /) -> RestartDecision:
        self._failures_ms.append(now_ms)
        too_many = len(self._failures_ms) > self._config.max_failures_per_interval
        if too_many and now_ms - self._failures_ms[0] <= self._config.interval_ms:
            return _NO_RESTART
        return RestartDecision(restart=True, delay_ms=self._config.delay_ms)


class _Exponential(RestartPolicy):
    def __init__(self, config: ExponentialDelay) -> None:
        super().__init__()
        self._config = config
        self._attempts = 0
        self._planned_ms: int | None = None

    def _decide(self, now_ms: int, jitter: float, /) -> RestartDecision:
        merged = self._planned_ms is not None and now_ms <= self._planned_ms
        if not merged:
            if self._planned_ms is not None and now_ms - self._planned_ms >= self._config.reset_threshold_ms:
                self._attempts = 0
            self._planned_ms = now_ms + self._delay_ms(jitter)
            self._attempts += 1
        limit = self._config.attempts_before_reset
        if limit is not None and self._attempts > limit:
            return RestartDecision(restart=False, merged=merged)
        assert self._planned_ms is not None
        return RestartDecision(restart=True, delay_ms=self._planned_ms - now_ms, merged=merged)

    def _delay_ms(self, jitter: float) -> int:
        config = self._config
        try:
            backoff_ms = min(config.initial_backoff_ms * config.multiplier**self._attempts, _LARGEST_BACKOFF_MS)
        except OverflowError:
            backoff_ms = _LARGEST_BACKOFF_MS
        varied_ms = backoff_ms + backoff_ms * config.jitter * jitter
        return max(config.initial_backoff_ms, round(min(varied_ms, config.max_backoff_ms)))

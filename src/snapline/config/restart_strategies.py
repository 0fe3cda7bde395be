"""What a job does after a failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from snapline.config.setting_checks import Settings, count, number, wrong
from snapline.config.units import Duration, duration_ms, positive_duration_ms


@dataclass(frozen=True, slots=True)
class NoRestart:
    """The first failure of a task fails the job."""


@dataclass(frozen=True, slots=True, init=False)
class FixedDelay(Settings):
    """Restart up to `attempts` times in the life of the job, `delay` after each failure."""

    attempts: int
    delay_ms: int

    def __init__(self, *, attempts: int = 1, delay: Duration = "1s") -> None:
        self._fill(attempts=count(attempts, "attempts", least=0), delay_ms=duration_ms(delay, setting="delay"))


@dataclass(frozen=True, slots=True, init=False)
class FailureRate(Settings):
    """Restart `delay` after a failure, unless there were more than `max_failures_per_interval` within `interval`."""

    max_failures_per_interval: int
    interval_ms: int
    delay_ms: int

    def __init__(
        self, *, max_failures_per_interval: int = 1, interval: Duration = "1min", delay: Duration = "1s"
    ) -> None:
        self._fill(
            max_failures_per_interval=count(max_failures_per_interval, "max_failures_per_interval", least=1),
            interval_ms=positive_duration_ms(interval, "interval"),
            delay_ms=duration_ms(delay, setting="delay"),
        )


@dataclass(frozen=True, slots=True, init=False)
class ExponentialDelay(Settings):
    """Restart after a delay that grows with every failure and is reset once the job has been stable.

    initial_backoff: the first delay, and the shortest.
    max_backoff: the longest delay.
    multiplier: growth from one delay to the next, above 1.
    jitter: fraction of the delay (0 to 1) by which it is shortened or lengthened at random.
    reset_threshold: after a run of this length the delay is `initial_backoff` again.
    attempts_before_reset: restarts without such a run before the job fails; None is no limit.
    """

    initial_backoff_ms: int
    max_backoff_ms: int
    multiplier: float
    jitter: float
    reset_threshold_ms: int
    attempts_before_reset: int | None

    def __init__(
        self,
        *,
        initial_backoff: Duration = "1s",
        max_backoff: Duration = "1min",
        multiplier: float = 1.5,
        jitter: float = 0.1,
        reset_threshold: Duration = "1h",
        attempts_before_reset: int | None = None,
    ) -> None:
        self._fill(
            initial_backoff_ms=positive_duration_ms(initial_backoff, "initial_backoff"),
            max_backoff_ms=positive_duration_ms(max_backoff, "max_backoff"),
            multiplier=number(multiplier, "multiplier"),
            jitter=number(jitter, "jitter"),
            reset_threshold_ms=positive_duration_ms(reset_threshold, "reset_threshold"),
            attempts_before_reset=None
            if attempts_before_reset is None
            else count(attempts_before_reset, "attempts_before_reset", least=1),
        )
        if self.initial_backoff_ms > self.max_backoff_ms:
            raise wrong(
                "initial_backoff",
                initial_backoff,
                f"longer than max_backoff ({self.max_backoff_ms}ms); lower it or raise max_backoff",
            )
        if self.multiplier <= 1:
            raise wrong("multiplier", multiplier, "the delay would not grow; use more than 1, or FixedDelay")
        if not 0 <= self.jitter <= 1:
            raise wrong("jitter", jitter, "is a fraction of the delay; use 0 to 1")


RestartStrategy: TypeAlias = NoRestart | FixedDelay | FailureRate | ExponentialDelay


def default_restart(checkpointing_on: bool) -> RestartStrategy:
    """The strategy of a job that names none: no restart without checkpoints, since it would repeat all work.

    The first delay is short, since most restarts reuse their processes and take a fraction of a second. The longest is
    too: an error that repeats ends the job within a minute, even if other failures came before it.
    """
    return ExponentialDelay(initial_backoff="100ms", max_backoff="5s") if checkpointing_on else NoRestart()

"""Restart strategies: defaults, and what is refused with which advice."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from snapline.config.restart_strategies import ExponentialDelay, FailureRate, FixedDelay, NoRestart, default_restart
from snapline.errors import ConfigurationError


def test_restart_strategies_have_the_defaults_of_the_specification() -> None:
    fixed, rate, exponential = FixedDelay(), FailureRate(), ExponentialDelay()
    assert (fixed.attempts, fixed.delay_ms) == (1, 1_000)
    assert (rate.max_failures_per_interval, rate.interval_ms, rate.delay_ms) == (1, 60_000, 1_000)
    assert (exponential.initial_backoff_ms, exponential.max_backoff_ms) == (1_000, 60_000)
    assert (exponential.multiplier, exponential.jitter) == (1.5, 0.1)
    assert (exponential.reset_threshold_ms, exponential.attempts_before_reset) == (3_600_000, None)


def test_the_default_strategy_depends_on_checkpointing() -> None:
    assert default_restart(checkpointing_on=True) == ExponentialDelay(initial_backoff="100ms", max_backoff="5s")
    assert default_restart(checkpointing_on=False) == NoRestart()


def test_ten_repeats_take_less_than_a_minute_whatever_came_before() -> None:
    strategy = default_restart(checkpointing_on=True)
    assert isinstance(strategy, ExponentialDelay)
    assert 9 * strategy.max_backoff_ms <= 45_000, "which leaves some time for the attempts themselves"


@pytest.mark.parametrize(
    ("strategy", "settings", "complaint"),
    [
        (FixedDelay, {"attempts": -1}, "attempts=-1: too small"),
        (FixedDelay, {"delay": 3}, "delay=3: a bare number"),
        (FailureRate, {"max_failures_per_interval": 0}, "max_failures_per_interval=0: too small"),
        (FailureRate, {"interval": "0s"}, "interval='0s': must be longer than nothing"),
        (FailureRate, {"delay": "x"}, "delay='x': not a duration"),
        (ExponentialDelay, {"initial_backoff": 0}, "initial_backoff=0: must be longer"),
        (ExponentialDelay, {"initial_backoff": "2min"}, "initial_backoff='2min': longer than max_backoff (60000ms)"),
        (ExponentialDelay, {"max_backoff": "0ms"}, "max_backoff='0ms': must be longer"),
        (ExponentialDelay, {"multiplier": 1}, "multiplier=1: the delay would not grow"),
        (ExponentialDelay, {"multiplier": float("inf")}, "multiplier=inf: not a finite number"),
        (ExponentialDelay, {"multiplier": "2"}, "multiplier='2': not a finite number"),
        (ExponentialDelay, {"jitter": 1.1}, "jitter=1.1: is a fraction of the delay; use 0 to 1"),
        (ExponentialDelay, {"jitter": -0.1}, "jitter=-0.1"),
        (ExponentialDelay, {"jitter": float("nan")}, "jitter=nan: not a finite number"),
        (ExponentialDelay, {"reset_threshold": 0}, "reset_threshold=0: must be longer"),
        (ExponentialDelay, {"attempts_before_reset": 0}, "attempts_before_reset=0: too small; use at least 1"),
    ],
)
def test_a_wrong_restart_setting_is_refused_by_name(
    strategy: type[FixedDelay | FailureRate | ExponentialDelay], settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        strategy(**settings)
    assert complaint in str(caught.value)


def test_restart_strategies_travel_too() -> None:
    for strategy in (NoRestart(), FixedDelay(attempts=3), FailureRate(interval="5s"), ExponentialDelay(jitter=0)):
        assert pickle.loads(pickle.dumps(strategy)) == strategy

"""Restart strategies: how often, how soon, and which failures count as one."""

from __future__ import annotations

import math

import pytest

from snapline.config import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from snapline.errors import EngineError
from snapline.protocol.job.restart_policy import RestartDecision, RestartPolicy

NO = RestartDecision(restart=False)


def after(delay_ms: int, *, merged: bool = False) -> RestartDecision:
    return RestartDecision(restart=True, delay_ms=delay_ms, merged=merged)


def decisions(config: RestartStrategy, *failures_ms: int, jitter: float = 0.0) -> list[RestartDecision]:
    policy = RestartPolicy.for_config(config)
    return [policy.failed(now_ms, jitter) for now_ms in failures_ms]


def test_without_restarts_the_first_failure_is_the_last() -> None:
    assert decisions(NoRestart(), 0, 10) == [NO, NO]


def test_fixed_delay_restarts_as_often_as_allowed() -> None:
    assert decisions(FixedDelay(attempts=2, delay="3s"), 0, 1, 1_000_000, 2_000_000) == [
        after(3_000),
        after(3_000),
        NO,
        NO,
    ]


def test_fixed_delay_with_no_attempts_never_restarts() -> None:
    assert decisions(FixedDelay(attempts=0), 0) == [NO]


def test_failure_rate_allows_n_failures_within_the_interval() -> None:
    config = FailureRate(max_failures_per_interval=2, interval="1s", delay="5ms")
    assert decisions(config, 0, 500, 1_000) == [after(5), after(5), NO]


def test_failure_rate_forgets_failures_older_than_the_interval() -> None:
    config = FailureRate(max_failures_per_interval=2, interval="1s", delay="5ms")
    assert decisions(config, 0, 500, 1_001, 1_400) == [after(5), after(5), after(5), NO]


def test_a_failure_exactly_one_interval_ago_still_counts() -> None:
    assert decisions(FailureRate(interval="1s"), 0, 1_000)[1] == NO
    assert decisions(FailureRate(interval="1s"), 0, 1_001)[1].restart


def test_failure_rate_counts_the_failures_it_refused() -> None:
    assert [decision.restart for decision in decisions(FailureRate(interval="1s"), 0, 900, 1_800, 2_801)] == [
        True,
        False,
        False,
        True,
    ]


def test_exponential_delay_grows_up_to_the_maximum() -> None:
    config = ExponentialDelay(initial_backoff="1s", max_backoff="5s", multiplier=2, jitter=0)
    assert decisions(config, 0, 10_000, 20_000, 30_000, 40_000) == [
        after(1_000),
        after(2_000),
        after(4_000),
        after(5_000),
        after(5_000),
    ]


def test_a_failure_at_or_before_the_planned_restart_is_merged() -> None:
    config = ExponentialDelay(initial_backoff="1s", multiplier=2, jitter=0)
    assert decisions(config, 0, 400, 1_000, 1_001) == [
        after(1_000),
        after(600, merged=True),
        after(0, merged=True),
        after(2_000),
    ]


def test_a_merged_failure_does_not_count_as_an_attempt() -> None:
    config = ExponentialDelay(jitter=0, attempts_before_reset=1)
    assert decisions(config, 0, 1, 2, 1_001) == [after(1_000), after(999, merged=True), after(998, merged=True), NO]


def test_after_the_last_attempt_there_is_no_restart_to_merge_with() -> None:
    config = ExponentialDelay(jitter=0, attempts_before_reset=1)
    assert decisions(config, 0, 2_000, 2_001) == [after(1_000), NO, RestartDecision(restart=False, merged=True)]


def test_stability_since_the_planned_restart_starts_the_delay_anew() -> None:
    config = ExponentialDelay(initial_backoff="1s", multiplier=2, jitter=0, reset_threshold="10s")
    assert decisions(config, 0, 1_000 + 9_999)[1] == after(2_000)
    assert decisions(config, 0, 1_000 + 10_000, 20_000) == [after(1_000), after(1_000), after(2_000)]


def test_stability_gives_back_the_attempts_too() -> None:
    config = ExponentialDelay(jitter=0, attempts_before_reset=1, reset_threshold="10s")
    assert [decision.restart for decision in decisions(config, 0, 20_000, 30_000)] == [True, True, False]


@pytest.mark.parametrize(("jitter", "delay_ms"), [(-1.0, 1_800), (-0.5, 1_900), (0.0, 2_000), (1.0, 2_200)])
def test_jitter_shortens_or_lengthens_the_delay(jitter: float, delay_ms: int) -> None:
    config = ExponentialDelay(initial_backoff="1s", multiplier=2, jitter=0.1)
    assert decisions(config, 0, 10_000, jitter=jitter)[1] == after(delay_ms)


def test_jitter_leads_neither_below_the_first_delay_nor_above_the_last() -> None:
    config = ExponentialDelay(initial_backoff="1s", max_backoff="2s", multiplier=2, jitter=0.5)
    assert decisions(config, 0, jitter=-1.0) == [after(1_000)]
    assert decisions(config, 0, 10_000, jitter=1.0)[1] == after(2_000)


@pytest.mark.parametrize("jitter", [-1.0, 0.0, 1.0])
def test_thousands_of_failures_do_not_overflow(jitter: float) -> None:
    config = ExponentialDelay(multiplier=10, jitter=1, max_backoff="1min")
    last = decisions(config, *(day * 61_000 for day in range(2_000)), jitter=jitter)[-1]
    assert last == after(1_000 if jitter == -1 else 60_000)


def test_a_clock_that_goes_back_counts_as_one_that_stands_still() -> None:
    config = ExponentialDelay(jitter=0)
    assert decisions(config, 100_000, 50_000) == [after(1_000), after(1_000, merged=True)]
    assert decisions(FailureRate(interval="1s"), 100_000, 1) == [after(1_000), NO]


@pytest.mark.parametrize("jitter", [-1.01, 1.01, math.nan])
def test_jitter_out_of_range_is_a_defect_and_changes_nothing(jitter: float) -> None:
    policy = RestartPolicy.for_config(FixedDelay(attempts=1))
    with pytest.raises(EngineError, match="jitter"):
        policy.failed(0, jitter)
    assert policy.failed(0, 0.0).restart

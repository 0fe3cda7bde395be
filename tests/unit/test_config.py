"""Settings: what is accepted, what it becomes, and what is refused with which advice."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from snapline.config import (
    MAX_COUNT,
    MAX_MIN_PAUSE_MS,
    CheckpointMode,
    Checkpoints,
    Duration,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    default_restart,
    duration_ms,
    size_bytes,
)
from snapline.errors import ConfigurationError
from snapline.types import ClaimMode, ExternalizedRetention, SavepointFormat


@pytest.mark.parametrize(
    ("value", "milliseconds"),
    [
        ("2s", 2_000),
        ("500ms", 500),
        ("10 min", 600_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("  3  Seconds ", 3_000),
        ("1 MINUTE", 60_000),
        ("1.5s", 1_500),
        ("2.3s", 2_300),
        ("0.1ms", 1),
        ("0", 0),
        ("0s", 0),
        (0, 0),
        (timedelta(minutes=5), 300_000),
        (timedelta(microseconds=1_500), 2),
        (timedelta(0), 0),
    ],
)
def test_a_duration_becomes_milliseconds(value: Duration, milliseconds: int) -> None:
    assert duration_ms(value) == milliseconds


@pytest.mark.parametrize("value", [5, 2.5, -1, "5", "2.5"])
def test_a_bare_number_is_refused_and_asks_for_a_unit(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^pause=.*add one, for example") as caught:
        duration_ms(value, setting="pause")
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("", "not a duration"),
        ("soon", "not a duration"),
        ("-2s", "not a duration"),
        ("2s 5ms", "not a duration"),
        ("1e3s", "not a duration"),
        ("٣s", "not a duration"),
        ("2 fortnights", "unknown unit 'fortnights'; use one of ms"),
        ("3us", "unknown unit"),
        (timedelta(seconds=-1), "cannot be negative"),
        ("36501d", "too long; use at most 36500d"),
        ("9" * 20 + "d", "too long"),
        ("9" * 21 + "ms", "not a duration"),
        (True, "not a duration"),
        (None, "not a duration"),
        ([2], "not a duration"),
    ],
)
def test_what_is_no_duration_is_refused(value: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        duration_ms(value, setting="interval")
    assert str(caught.value).startswith(f"interval={value!r}: ")
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("64MB", 64 << 20),
        ("20kb", 20 << 10),
        ("1 GiB", 1 << 30),
        ("2t", 2 << 40),
        ("1.5k", 1536),
        ("7 bytes", 7),
        ("4096", 4096),
        (4096, 4096),
        (0, 0),
    ],
)
def test_a_size_becomes_bytes(value: str | int, size: int) -> None:
    assert size_bytes(value) == size


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("much", "not a size"),
        ("3 meters", "unknown unit 'meters'; use one of b"),
        (-1, "cannot be negative"),
        ("2000000TB", "too large"),
        (1.5, "not a size"),
        (True, "not a size"),
        (None, "not a size"),
    ],
)
def test_what_is_no_size_is_refused(value: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        size_bytes(value, setting="buffer")
    assert str(caught.value).startswith(f"buffer={value!r}: ")
    assert complaint in str(caught.value)


def test_the_example_of_the_documentation() -> None:
    checkpoints = Checkpoints(interval="2s", storage="/data/clicks", unaligned=True, aligned_timeout="500ms")
    assert checkpoints.interval_ms == 2_000
    assert checkpoints.storage == "/data/clicks"
    assert checkpoints.unaligned
    assert checkpoints.aligned_timeout_ms == 500


def test_defaults_are_those_of_the_specification() -> None:
    defaults = Checkpoints()
    assert {field.name: getattr(defaults, field.name) for field in fields(defaults)} == {
        "interval_ms": None,
        "interval_during_backlog_ms": None,
        "min_pause_ms": 0,
        "max_concurrent": 1,
        "timeout_ms": 600_000,
        "pause_sources_until_first": False,
        "after_tasks_finish": True,
        "mode": CheckpointMode.EXACTLY_ONCE,
        "unaligned": False,
        "aligned_timeout_ms": 0,
        "incremental": False,
        "inline_threshold_bytes": 20 * 1024,
        "compress": False,
        "tolerable_failures": None,
        "committer_retries": 10,
        "storage": None,
        "memory_limit_bytes": 5 << 20,
        "zookeeper": None,
        "local_directory": None,
        "create_subdirectory": True,
        "retained": 1,
        "externalized": ExternalizedRetention.NO_EXTERNALIZED,
        "parallel_cleanup": True,
        "savepoint_dir": None,
        "savepoint_format": SavepointFormat.CANONICAL,
        "restore_from": None,
        "claim_mode": ClaimMode.NO_CLAIM,
        "allow_non_restored": False,
        "ignore_in_flight_of": None,
        "max_queued_requests": 1000,
        "remembered_expired": 16,
        "history": 10,
    }


def test_every_setting_reaches_its_own_attribute() -> None:
    given: dict[str, Any] = {
        "interval": "1s",
        "interval_during_backlog": "2s",
        "min_pause": "3s",
        "max_concurrent": 4,
        "timeout": "5s",
        "pause_sources_until_first": True,
        "after_tasks_finish": False,
        "mode": CheckpointMode.AT_LEAST_ONCE,
        "unaligned": False,
        "aligned_timeout": "6s",
        "incremental": True,
        "inline_threshold": "7kb",
        "compress": True,
        "tolerable_failures": 8,
        "committer_retries": 9,
        "storage": "a",
        "memory_limit": "16kb",
        "zookeeper": "one:2181,two:2181",
        "local_directory": "d",
        "create_subdirectory": False,
        "retained": 11,
        "externalized": ExternalizedRetention.RETAIN_ON_CANCELLATION,
        "parallel_cleanup": False,
        "savepoint_dir": "b",
        "savepoint_format": SavepointFormat.NATIVE,
        "restore_from": "c",
        "claim_mode": ClaimMode.CLAIM,
        "allow_non_restored": True,
        "ignore_in_flight_of": 12,
        "max_queued_requests": 13,
        "remembered_expired": 14,
        "history": 15,
    }
    assert set(given) == set(inspect.signature(Checkpoints).parameters)
    checkpoints = Checkpoints(**given)
    for name, value in given.items():
        if hasattr(checkpoints, name):
            assert getattr(checkpoints, name) == value, name
    assert checkpoints.interval_ms == 1_000
    assert checkpoints.interval_during_backlog_ms == 2_000
    assert checkpoints.min_pause_ms == 3_000
    assert checkpoints.timeout_ms == 5_000
    assert checkpoints.aligned_timeout_ms == 6_000
    assert checkpoints.inline_threshold_bytes == 7 * 1024
    assert checkpoints.memory_limit_bytes == 16 * 1024


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"interval": "9ms"}, "interval='9ms': too short; use at least 10ms; leave it out"),
        ({"interval": 0}, "interval=0: too short"),
        ({"interval": 5}, "interval=5: a bare number has no unit"),
        ({"timeout": "9ms"}, "timeout='9ms': too short; use at least 10ms"),
        ({"timeout": None}, "timeout=None: not a duration"),
        ({"min_pause": "later"}, "min_pause='later': not a duration"),
        ({"interval_during_backlog": "5s"}, "interval_during_backlog='5s': has no effect"),
        ({"unaligned": True, "mode": "AT_LEAST_ONCE"}, "unaligned=True: needs mode EXACTLY_ONCE"),
        ({"unaligned": True, "max_concurrent": 2}, "max_concurrent=2: must be 1 with unaligned=True"),
        ({"max_concurrent": 0}, "max_concurrent=0: too small; use at least 1"),
        ({"max_concurrent": True}, "max_concurrent=True: not a whole number"),
        ({"max_concurrent": 1.0}, "max_concurrent=1.0: not a whole number"),
        ({"max_concurrent": MAX_COUNT + 1}, "too large; use at most"),
        ({"tolerable_failures": -1}, "tolerable_failures=-1: too small; use at least 0"),
        ({"retained": 0}, "retained=0: too small; use at least 1"),
        ({"committer_retries": -1}, "committer_retries=-1: too small"),
        ({"ignore_in_flight_of": 0}, "ignore_in_flight_of=0: too small; use at least 1"),
        ({"max_queued_requests": 0}, "max_queued_requests=0: too small"),
        ({"remembered_expired": -1}, "remembered_expired=-1: too small"),
        ({"history": -1}, "history=-1: too small"),
        ({"mode": "ONCE"}, "mode='ONCE': unknown; use one of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ({"mode": ClaimMode.CLAIM}, "mode=<ClaimMode.CLAIM: 'CLAIM'>: unknown"),
        ({"claim_mode": "mine"}, "claim_mode='mine': unknown; use one of CLAIM, NO_CLAIM, LEGACY"),
        ({"unaligned": "false"}, "unaligned='false': neither True nor False"),
        ({"incremental": 1}, "incremental=1: neither True nor False"),
        ({"storage": ""}, "storage='': empty"),
        ({"storage": b"/data"}, "storage=b'/data': not a path"),
        ({"restore_from": 7}, "restore_from=7: not a path"),
        (
            {"inline_threshold": "2MB"},
            "inline_threshold='2MB': the metadata file would grow too large; use at most 1MB",
        ),
        (
            {"externalized": "RETAIN_ON_CANCELLATION"},
            "externalized='RETAIN_ON_CANCELLATION': there is nowhere to keep checkpoints after the job; set `storage`",
        ),
    ],
)
def test_a_wrong_setting_is_refused_by_name(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Checkpoints(**settings)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", ["at_least_once", "AT_LEAST_ONCE", " At-Least-Once "])
def test_kinds_may_be_given_as_text_in_any_case(text: str) -> None:
    assert Checkpoints(mode=text).mode is CheckpointMode.AT_LEAST_ONCE


def test_other_kinds_may_be_given_as_text_too() -> None:
    checkpoints = Checkpoints(
        storage="s", externalized="delete_on_cancellation", claim_mode="claim", savepoint_format="native"
    )
    assert checkpoints.externalized is ExternalizedRetention.DELETE_ON_CANCELLATION
    assert checkpoints.claim_mode is ClaimMode.CLAIM
    assert checkpoints.savepoint_format is SavepointFormat.NATIVE


def test_a_path_object_becomes_text() -> None:
    assert Checkpoints(storage=Path("/data/x")).storage == "/data/x"


def test_the_least_values_are_accepted() -> None:
    checkpoints = Checkpoints(interval="10ms", timeout="10ms", tolerable_failures=0, history=0, inline_threshold="1MB")
    assert (checkpoints.interval_ms, checkpoints.timeout_ms, checkpoints.tolerable_failures) == (10, 10, 0)
    assert checkpoints.inline_threshold_bytes == 1 << 20


def test_min_pause_is_capped_at_a_year() -> None:
    assert Checkpoints(min_pause="364d").min_pause_ms == 364 * 86_400_000
    assert Checkpoints(min_pause="400d").min_pause_ms == MAX_MIN_PAUSE_MS == 365 * 86_400_000


@pytest.mark.parametrize(
    ("settings", "normal_ms", "backlog_ms"),
    [
        ({}, None, None),
        ({"min_pause": "5s"}, None, None),
        ({"interval": "2s"}, 2_000, 2_000),
        ({"interval": "2s", "min_pause": "5s"}, 5_000, 5_000),
        ({"interval": "5s", "min_pause": "2s"}, 5_000, 5_000),
        ({"interval": "2s", "interval_during_backlog": "7s"}, 2_000, 7_000),
        ({"interval": "2s", "interval_during_backlog": "10ms"}, 2_000, 10),
        ({"interval": "2s", "interval_during_backlog": "7s", "min_pause": "9s"}, 9_000, 9_000),
        ({"interval": "2s", "interval_during_backlog": 0}, 2_000, None),
        ({"interval": "2s", "interval_during_backlog": "9ms", "min_pause": "5s"}, 5_000, None),
    ],
)
def test_effective_intervals(settings: dict[str, Any], normal_ms: int | None, backlog_ms: int | None) -> None:
    checkpoints = Checkpoints(**settings)
    assert checkpoints.is_periodic == ("interval" in settings)
    assert checkpoints.effective_interval_ms == normal_ms
    assert checkpoints.effective_interval_during_backlog_ms == backlog_ms


def test_settings_are_frozen_comparable_and_travel_to_the_executors() -> None:
    checkpoints = Checkpoints(interval="2s", storage="/data")
    with pytest.raises(FrozenInstanceError):
        checkpoints.interval_ms = 1  # type: ignore[misc]
    assert checkpoints == Checkpoints(interval="2000ms", storage=Path("/data"))
    assert checkpoints != Checkpoints(interval="2s")
    assert hash(checkpoints) == hash(Checkpoints(interval="2000ms", storage="/data"))
    assert pickle.loads(pickle.dumps(checkpoints)) == checkpoints
    assert copy.deepcopy(checkpoints) == checkpoints
    assert "interval_ms=2000" in repr(checkpoints)


def test_restart_strategies_have_the_defaults_of_the_specification() -> None:
    fixed, rate, exponential = FixedDelay(), FailureRate(), ExponentialDelay()
    assert (fixed.attempts, fixed.delay_ms) == (1, 1_000)
    assert (rate.max_failures_per_interval, rate.interval_ms, rate.delay_ms) == (1, 60_000, 1_000)
    assert (exponential.initial_backoff_ms, exponential.max_backoff_ms) == (1_000, 60_000)
    assert (exponential.multiplier, exponential.jitter) == (1.5, 0.1)
    assert (exponential.reset_threshold_ms, exponential.attempts_before_reset) == (3_600_000, None)


def test_the_default_strategy_depends_on_checkpointing() -> None:
    assert default_restart(checkpointing_on=True) == ExponentialDelay(initial_backoff="100ms")
    assert default_restart(checkpointing_on=False) == NoRestart()


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
        (ExponentialDelay, {"jitter": 1.1}, "jitter=1.1: is a part of the delay; use 0 to 1"),
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

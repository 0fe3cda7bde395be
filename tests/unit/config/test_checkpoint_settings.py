"""Settings of checkpoints: what is accepted, what it becomes, and what is refused with which advice."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from snapline.config.checkpoint_settings import MAX_MIN_PAUSE_MS, CheckpointMode, Checkpoints
from snapline.config.secret import Secret
from snapline.config.setting_checks import MAX_COUNT
from snapline.config.storage_options import StorageOptions
from snapline.errors import ConfigurationError
from snapline.types import ClaimMode, ExternalizedRetention, SavepointFormat


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
        "asynchronous": True,
        "incremental": False,
        "inline_threshold_bytes": 20 * 1024,
        "compress": False,
        "tolerable_failures": None,
        "committer_retries": 10,
        "storage": None,
        "storage_options": StorageOptions(),
        "memory_limit_bytes": 5 << 20,
        "zookeeper": None,
        "zookeeper_auth": None,
        "zookeeper_acl": None,
        "local_directory": None,
        "create_subdirectory": True,
        "retained": 1,
        "externalized": ExternalizedRetention.NO_EXTERNALIZED,
        "directory_mode": None,
        "metadata_limit_bytes": 1 << 30,
        "parallel_cleanup": True,
        "savepoint_dir": None,
        "savepoint_format": SavepointFormat.CANONICAL,
        "restore_from": None,
        "trusted_directories": (),
        "claim_mode": ClaimMode.NO_CLAIM,
        "allow_non_restored": False,
        "allow_newer_output": False,
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
        "max_concurrent": 1,
        "timeout": "5s",
        "pause_sources_until_first": True,
        "after_tasks_finish": False,
        "mode": CheckpointMode.AT_LEAST_ONCE,
        "unaligned": False,
        "aligned_timeout": "6s",
        "asynchronous": False,
        "incremental": True,
        "inline_threshold": "7kb",
        "compress": True,
        "tolerable_failures": 8,
        "committer_retries": 9,
        "storage": "a",
        "storage_options": StorageOptions({"hdfs": {"user": "jobs"}}),
        "memory_limit": "16kb",
        "zookeeper": "one:2181,two:2181",
        "zookeeper_auth": Secret.env("E"),
        "zookeeper_acl": "auth::cdrwa,world:anyone:r",
        "local_directory": "d",
        "create_subdirectory": False,
        "retained": 11,
        "externalized": ExternalizedRetention.RETAIN_ON_CANCELLATION,
        "directory_mode": 0o750,
        "metadata_limit": "17mb",
        "parallel_cleanup": False,
        "savepoint_dir": "b",
        "savepoint_format": SavepointFormat.NATIVE,
        "restore_from": "c",
        "trusted_directories": ("f", "s3://g"),
        "claim_mode": ClaimMode.CLAIM,
        "allow_non_restored": True,
        "allow_newer_output": True,
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
    assert Checkpoints(max_concurrent=4).max_concurrent == 4  # not together with a pause
    assert checkpoints.metadata_limit_bytes == 17 << 20


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
        ({"min_pause": "1ms", "max_concurrent": 2}, "max_concurrent=2: must be 1 with min_pause"),
        ({"pause_sources_until_first": True}, "pause_sources_until_first=True: sources would wait for a checkpoint"),
        ({"local_directory": "/fast"}, "local_directory='/fast': there is nothing to copy: checkpoints stay in the"),
        ({"max_concurrent": 0}, "max_concurrent=0: too small; use at least 1"),
        ({"max_concurrent": True}, "max_concurrent=True: not a whole number"),
        ({"max_concurrent": 1.0}, "max_concurrent=1.0: not a whole number"),
        ({"max_concurrent": MAX_COUNT + 1}, "too large; use at most"),
        ({"tolerable_failures": -1}, "tolerable_failures=-1: too small; use at least 0"),
        ({"retained": 0}, "retained=0: too small; use at least 1"),
        ({"committer_retries": -1}, "committer_retries=-1: too small"),
        ({"ignore_in_flight_of": 0}, "ignore_in_flight_of=0: too small; use at least 1"),
        ({"metadata_limit": "1kb"}, "metadata_limit='1kb': the metadata of a job may not fit; use at least 1MB"),
        ({"directory_mode": "0o70x"}, "directory_mode='0o70x': not a mode of directories"),
        ({"directory_mode": "0077"}, "directory_mode='0077': not a mode of directories that their owner can use"),
        ({"directory_mode": 700}, "directory_mode=700: not a mode"),
        ({"zookeeper_acl": "auth::cdrwa"}, "zookeeper_acl='auth::cdrwa': has no effect without ZooKeeper"),
        ({"zookeeper": "a:1", "storage": "s", "zookeeper_acl": "anyone:r"}, 'give "scheme:id:permissions"'),
        ({"zookeeper_auth": "x"}, "zookeeper_auth=Secret(***): has no effect without ZooKeeper"),
        ({"storage_options": "x"}, "storage_options: a str; give sl.S3"),
        ({"trusted_directories": ["a", ""]}, "trusted_directories='': empty"),
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


def test_checkpoints_outlive_a_job_by_default_where_they_can() -> None:
    assert Checkpoints(storage="s").externalized is ExternalizedRetention.RETAIN_ON_CANCELLATION
    assert Checkpoints().externalized is ExternalizedRetention.NO_EXTERNALIZED
    assert Checkpoints(storage="s", externalized="no_externalized").externalized is (
        ExternalizedRetention.NO_EXTERNALIZED
    )

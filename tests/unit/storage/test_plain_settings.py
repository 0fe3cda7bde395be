"""Settings as they are stored beside a job's checkpoints: complete, and without a secret."""

from __future__ import annotations

import msgspec
import pytest

from snapline.config import (
    S3,
    Checkpoints,
    Execution,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    Monitoring,
    NoRestart,
    RestartStrategy,
    Secret,
)
from snapline.storage.plain_settings import plain_restart, plain_settings, restart_of_plain, settings_of_plain

SECRET = "s3cr3t-of-the-store"


def there_and_back(plain: dict[str, object]) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(plain), type=dict[str, object])


def test_settings_come_back_as_they_were() -> None:
    checkpoints = Checkpoints(
        interval="10s",
        unaligned=True,
        aligned_timeout="1s",
        storage="/data",
        trusted_directories=["/a", "/b"],
        zookeeper="zoo:2181",
        zookeeper_auth=Secret.file("/run/auth"),
        directory_mode="0700",
    )
    execution = Execution(state_backend="rocksdb", host="10.0.0.1", encryption="tls")
    monitoring = Monitoring(port=8080, token=Secret.env("TOKEN"), history=5)
    assert settings_of_plain(Checkpoints(), there_and_back(plain_settings(checkpoints))) == checkpoints
    assert settings_of_plain(Execution(), there_and_back(plain_settings(execution))) == execution
    assert settings_of_plain(Monitoring(), there_and_back(plain_settings(monitoring))) == monitoring


@pytest.mark.parametrize(
    "restart",
    [
        NoRestart(),
        FixedDelay(attempts=3, delay="2s"),
        FailureRate(max_failures_per_interval=2),
        ExponentialDelay(jitter=0.5, attempts_before_reset=3),
    ],
)
def test_restart_strategies_come_back(restart: RestartStrategy) -> None:
    assert restart_of_plain(there_and_back(plain_restart(restart))) == restart


def test_no_secret_is_stored() -> None:
    checkpoints = Checkpoints(
        storage=f"s3://user:{SECRET}@bucket/jobs",
        savepoint_dir=f"hdfs://name:{SECRET}@host/savepoints",
        storage_options={
            "s3": S3(key="k", secret=SECRET),
            "abfs": {"account": "a", "sas_token": SECRET, "nested": {"note": SECRET}},
        },
        zookeeper="zoo:2181",
        zookeeper_auth=f"user:{SECRET}",
        zookeeper_acl=f"digest:user:{SECRET}:cdrwa,world:anyone:r",
    )
    plain = plain_settings(checkpoints)
    assert SECRET not in msgspec.json.encode(plain).decode()
    assert plain["storage"] == "s3://***@bucket/jobs"
    assert plain["storage_options"] == {"s3": ["key", "secret"], "abfs": ["account", "nested", "sas_token"]}
    assert plain["zookeeper_acl"] == "digest:user:***:cdrwa,world:anyone:r"
    shown = settings_of_plain(Checkpoints(), there_and_back(plain))
    assert repr(shown.storage_options) == "StorageOptions(s3: key secret, abfs: account nested sas_token)"
    assert shown.zookeeper_auth is not None
    assert repr(shown.zookeeper_auth) == "Secret(***)"


def test_of_a_secret_that_is_a_function_only_its_name_is_stored() -> None:
    def read_vault() -> str:
        return SECRET

    plain = plain_settings(Monitoring(token=Secret.call(read_vault)))
    assert str(plain["token"]).endswith("read_vault")
    shown = settings_of_plain(Monitoring(), plain)
    assert repr(shown.token) == "Secret(***)"


def test_other_versions_have_other_settings() -> None:
    shown = settings_of_plain(Checkpoints(), {"interval_ms": 5000, "of_the_future": 1})
    assert (shown.interval_ms, shown.retained) == (5000, 1)
    assert restart_of_plain({"strategy": "OfTheFuture", "delay_ms": 1}) == NoRestart()
    with pytest.raises(msgspec.ValidationError):
        settings_of_plain(Checkpoints(), {"interval_ms": "soon"})

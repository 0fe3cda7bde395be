"""`spark.snapline.*` settings."""

from __future__ import annotations

import pytest

from snapline.api.job import Job
from snapline.config import (
    S3,
    Checkpoints,
    Execution,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    Secret,
    StateBackend,
    default_restart,
)
from snapline.errors import ConfigurationError
from snapline.spark.spark_settings import configured, replaced
from snapline.types import ExternalizedRetention


def test_a_job_stays_itself_without_settings() -> None:
    job = Job("j")
    assert configured(job, {"spark.app.name": "x", "spark.snaplinelike": "y"}) is job


def test_settings_go_before_those_of_the_job() -> None:
    job = Job(
        "j",
        parallelism=2,
        checkpoints=Checkpoints(interval="1min", storage="/a", retained=3),
        execution=Execution(flush_timeout="1ms"),
    )
    changed = configured(
        job,
        {
            "spark.snapline.checkpoints.interval": "2s",
            "spark.snapline.checkpoints.unaligned": "True",
            "spark.snapline.checkpoints.tolerable_failures": " 4 ",
            "spark.snapline.checkpoints.externalized": "retain_on_cancellation",
            "spark.snapline.execution.batch_size": "64KB",
            "spark.snapline.execution.state_backend": "rocksdb",
            "spark.snapline.parallelism": "8",
            "spark.snapline.max_parallelism": "256",
            "spark.snapline.id": "other",
        },
    )
    assert changed.checkpoints == Checkpoints(
        interval="2s",
        storage="/a",
        retained=3,
        unaligned=True,
        tolerable_failures=4,
        externalized=ExternalizedRetention.RETAIN_ON_CANCELLATION,
    )
    assert changed.execution == Execution(flush_timeout="1ms", batch_size="64KB", state_backend=StateBackend.ROCKSDB)
    assert (changed.parallelism, changed.max_parallelism, changed.id) == (8, 256, "other")
    assert (job.parallelism, job.checkpoints.interval_ms, job.id) == (2, 60_000, None)


def test_none_takes_a_setting_away() -> None:
    job = Job("j", checkpoints=Checkpoints(interval="1s", tolerable_failures=1))
    changed = configured(
        job, {"spark.snapline.checkpoints.interval": "none", "spark.snapline.checkpoints.tolerable_failures": "None"}
    )
    assert changed.checkpoints == Checkpoints()
    assert changed.restart == NoRestart()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"checkpoints.interval": "1s"}, default_restart(True)),
        ({"restart.strategy": "none", "checkpoints.interval": "1s"}, NoRestart()),
        ({"restart.strategy": "fixed-delay", "restart.attempts": "3"}, FixedDelay(attempts=3)),
        ({"restart.strategy": "failure_rate", "restart.interval": "2s"}, FailureRate(interval="2s")),
        ({"checkpoints.interval": "1s", "restart.multiplier": "2.5"}, replaced(default_restart(True), multiplier=2.5)),
    ],
)
def test_restart_strategies(settings: dict[str, str], expected: object) -> None:
    changed = configured(Job("j"), {f"spark.snapline.{name}": text for name, text in settings.items()})
    assert changed.restart == expected


def test_a_strategy_of_the_job_is_kept_and_changed() -> None:
    job = Job("j", restart=FixedDelay(attempts=3, delay="5s"))
    assert configured(job, {"spark.snapline.checkpoints.interval": "1s"}).restart == job.restart
    changed = configured(job, {"spark.snapline.restart.attempts": "9"})
    assert changed.restart == FixedDelay(attempts=9, delay="5s")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("checkpoint.interval", "1s", "did you mean spark.snapline.checkpoints.interval?"),
        ("checkpoints.intervall", "1s", "did you mean spark.snapline.checkpoints.interval?"),
        ("execution.flush", "1s", "did you mean spark.snapline.execution.flush_timeout?"),
        ("zzz", "1", "did you mean spark.snapline."),
        ("restart.attempts", "1", "unknown setting of the strategy NoRestart"),
        ("restart.strategy", "sometimes", "use one of none, fixed_delay"),
        ("checkpoints.unaligned", "yes", "neither true nor false"),
        ("checkpoints.retained", "many", "spark.snapline.checkpoints.retained='many': not a number"),
        ("checkpoints.retained", "0", "too small"),
        ("checkpoints.interval", "5", "bare number"),
        ("id", "../x", "../x"),
        ("checkpoints.storage_options", "x", "unknown setting"),
        ("checkpoints.zookeeper_auth", "me:hunter2", "checkpoints.zookeeper_auth: not a reference; write env:NAME"),
        ("s3.secret", "hunter2", "spark.snapline.s3.*: secret: not a reference; write env:NAME or file:PATH"),
        ("s3.endpoint", "minio", "spark.snapline.s3.*: endpoint='minio': not the URL of a server"),
        ("s3.user", "me", "S3 has no option 'user'; use one of endpoint, region"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        configured(Job("j"), {f"spark.snapline.{name}": value})
    assert complaint in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_storage_is_reached_as_the_settings_say() -> None:
    s3 = S3(endpoint="http://minio:9000", region="x")
    job = Job("j", checkpoints=Checkpoints(storage="s3://b/c", storage_options=s3, zookeeper="a:1"))
    changed = configured(
        job,
        {
            "spark.snapline.s3.endpoint": "http://other:9000",
            "spark.snapline.s3.key": "env:KEY",
            "spark.snapline.s3.secret": "file:/run/secret",
            "spark.snapline.checkpoints.zookeeper_auth": "file:/run/auth",
        },
    )
    both = S3(endpoint="http://other:9000", region="x", key=Secret.env("KEY"), secret=Secret.file("/run/secret"))
    assert changed.checkpoints == Checkpoints(
        storage="s3://b/c", storage_options=both, zookeeper="a:1", zookeeper_auth=Secret.file("/run/auth")
    )


@pytest.mark.parametrize(
    "settings",
    [
        Checkpoints(),
        Checkpoints(interval="1s", interval_during_backlog="0s", min_pause="1d", aligned_timeout="3ms", unaligned=True),
        Checkpoints(storage="/a", savepoint_dir="/b", memory_limit="7MB", zookeeper="a:1,b:2"),
        Checkpoints(storage="s3://a", storage_options=S3(region="x"), zookeeper="a:1", zookeeper_auth=Secret.env("A")),
        Execution(),
        Checkpoints(directory_mode="0700", trusted_directories="/a,/b", metadata_limit="3MB"),
        Execution(batch_size="1KB", host="h", heartbeat_timeout="1h", allow_plaintext=True),
        Execution(driver_ports=7100, slot_ports="7100-7109", encryption="tls"),
        FixedDelay(attempts=2, delay="1h"),
        ExponentialDelay(jitter=0.5),
    ],
)
def test_settings_can_be_made_again(settings: object) -> None:
    assert replaced(settings) == settings

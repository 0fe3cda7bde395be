from __future__ import annotations

from dataclasses import fields, replace

from snapline.config import S3, Checkpoints, Execution, FixedDelay, Monitoring, NoRestart, Secret
from snapline.devtools.kit.sample_views import sample_view
from snapline.web.job_board import encode
from snapline.web.settings_shape import configuration


def test_every_setting_is_shown() -> None:
    shown = configuration(sample_view())
    assert list(shown.checkpoints) == [item.name for item in fields(Checkpoints)]
    assert list(shown.execution) == [item.name for item in fields(Execution)]
    assert list(shown.monitoring) == [item.name for item in fields(Monitoring)]
    assert shown.restart == {"strategy": "NoRestart"}
    assert shown.checkpoints["mode"] == "EXACTLY_ONCE"
    assert shown.execution["state_backend"] == "memory"


def test_a_restart_strategy_has_its_settings() -> None:
    view = replace(sample_view(), restart=FixedDelay(attempts=3, delay="2s"))
    assert configuration(view).restart == {"strategy": "FixedDelay", "attempts": 3, "delay_ms": 2000}
    assert configuration(replace(view, restart=NoRestart())).restart == {"strategy": "NoRestart"}


def test_credentials_are_references() -> None:
    settings = Checkpoints(
        storage="s3://bucket/jobs",
        storage_options={
            "s3": S3(key=Secret.env("KEY"), secret="s3cret-1"),
            "hdfs": {"user": "jobs", "password": "s3cret-2", "client": object(), "ports": [1, 2]},
        },
        directory_mode="0750",
        zookeeper="a:1",
        zookeeper_auth="user:s3cret-3",
    )
    shown = configuration(sample_view(settings=settings, monitoring=Monitoring(token="s3cret-4")))
    assert b"s3cret" not in encode(shown)
    assert shown.checkpoints["storage_options"] == {
        "s3": {"key": "env:KEY", "secret": "***"},
        "hdfs": {"user": "jobs", "password": "***", "client": "<object>", "ports": [1, 2]},
    }
    assert shown.checkpoints["directory_mode"] == "0750"
    assert shown.monitoring["token"] == "***"

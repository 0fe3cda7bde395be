"""A job on Spark with its checkpoints on S3 and its journal in ZooKeeper; its settings hold references only."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.integration.storage_kit import KEY, SECRET, GuardedS3

import snapline as sl
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.devtools.kit.processes import operator_processes, send
from snapline.devtools.servers.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.slow

PASSWORD = "pa55-of-the-j0urnal"


def test_a_job_with_its_storage_elsewhere_survives_a_kill(
    spark: SparkSession, zookeeper: ZooKeeperServer, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    values = {"key": KEY, "secret": SECRET, "auth": f"spark-{uuid.uuid4().hex}:{PASSWORD}"}
    for name, value in values.items():
        (tmp_path / name).write_text(f"{value}\n")
    job_id = f"job-{uuid.uuid4().hex}"
    with GuardedS3([KEY]) as s3:
        s3.client().call_s3("create_bucket", Bucket="spark")
        made = numbering_job(
            "stored",
            tmp_path,
            rows=20_000,
            rows_per_second=5000,
            checkpoints=lambda _: sl.Checkpoints(
                interval="200ms",
                storage="s3://spark/jobs",
                storage_options=sl.S3(endpoint=s3.endpoint, region="us-east-1"),
                zookeeper=zookeeper.hosts,
            ),
            id=job_id,
        )
        settings = {
            "spark.snapline.s3.key": f"file:{tmp_path / 'key'}",
            "spark.snapline.s3.secret": f"file:{tmp_path / 'secret'}",
            "spark.snapline.checkpoints.zookeeper_auth": f"file:{tmp_path / 'auth'}",
        }
        for name, text in settings.items():
            spark.conf.set(name, text)
        try:
            handle = made.job.start(spark)
        finally:
            for name in settings:
                spark.conf.unset(name)
        wait_until(lambda: handle.checkpoints().counts.completed >= 2)
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        attempt = handle.attempt
        send(operator_processes(jvm)[0].pid)
        wait_until(lambda: handle.attempt > attempt)
        shown = f"{spark.sparkContext.getConf().getAll()} {spark.conf.getAll} {handle.events()} {handle.checkpoints()}"
        client = s3.client()
        assert handle.wait("180s") is sl.JobStatus.FINISHED, handle.cause
        assert made.prove().problems == ()
        stored = [name.encode() + client.cat_file(name) for name in client.find("spark")]
    shown += f"{handle.events()} {b''.join(stored)!r}"
    for value in (KEY, SECRET, PASSWORD):
        assert value not in shown

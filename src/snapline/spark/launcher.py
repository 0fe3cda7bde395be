"""Starts jobs on Spark."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from snapline.api.job import Job
from snapline.api.job_handle import JobHandle
from snapline.config import Monitoring
from snapline.graph.planner import make_spec
from snapline.runtime.master.start_master import start_master
from snapline.spark.dataframes import Materialised
from snapline.spark.driver_sinks import attach_session, check_free_slots
from snapline.spark.spark_provider import SparkProvider, check_session
from snapline.spark.spark_settings import configured


def start_job(spark: SparkSession, job: Job) -> JobHandle:
    """Start a job on the session's application, and return while it runs.

    Its slots are tasks of a Spark job; other queries of the application can run beside it. `spark.snapline.*` settings
    override those of the job, see `spark_settings`. Raises `ConfigurationError` if the job or Spark is misconfigured.
    """
    job = with_settings(spark, job)
    attach_session(job, spark)
    spec = make_spec(job)
    if job.monitoring is None:
        spec = replace(spec, monitoring=Monitoring())
    provider = SparkProvider(spark, spec.execution)
    try:
        provider.check(spec.plan.slots)
        check_free_slots(job, spark, spec.plan.slots)
        frames = Materialised(spec)  # after the check: to compute DataFrames may take long
    except BaseException:
        provider.close()
        raise
    try:
        handle = start_master(spec, provider)
    except BaseException:
        frames.delete_new()
        raise
    frames.delete_after(handle)
    return handle


def with_settings(spark: SparkSession, job: Job) -> Job:
    """The job with the `spark.snapline.*` settings of a session."""
    check_session(spark)
    return configured(job, {**dict(spark.sparkContext.getConf().getAll()), **spark.conf.getAll})

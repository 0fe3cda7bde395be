"""Provides slots as Spark tasks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from snapline.config import Encryption, Execution
from snapline.errors import ConfigurationError
from snapline.runtime.slot.slot_provider import SilentSlots, SlotOrder, no_slots
from snapline.spark import capacity
from snapline.spark.barrier_job import BarrierJob, is_stopped, why_gone
from snapline.spark.preflight import check_python

LOOPBACK = "127.0.0.1"

_ENCRYPTION = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
)


class SparkProvider:
    """A `SlotProvider` whose slots are the tasks of one Spark job."""

    def __init__(self, spark: SparkSession, execution: Execution | None = None) -> None:
        check_session(spark)
        context: Any = spark.sparkContext
        self._context = context
        self._execution = execution or Execution()
        self._pool: str | None = context.getLocalProperty("spark.scheduler.pool")
        self.driver_host = LOOPBACK if capacity.is_local(context) else str(context.getConf().get("spark.driver.host"))
        self._guard = threading.Lock()
        self._job: BarrierJob | None = None
        self._checked_slots = 0
        self._is_closed = False

    @property
    def bind_host(self) -> str:
        if capacity.is_local(self._context):
            return LOOPBACK
        return str(self._context.getConf().get("spark.driver.bindAddress", self.driver_host))

    @property
    def _executors_timeout_s(self) -> float:
        return self._execution.executors_timeout_ms / 1000

    def check(self, slots: int) -> None:
        """Reserve slots until `close`. Another call with the same number does nothing.

        Raises `ConfigurationError` if there are not enough, a Spark setting prevents it, or the executors' Python can't
        run Snapline.
        """
        check_running(self._context)
        if slots == self._checked_slots:
            return
        self._check_settings()
        capacity.reserve(self._context, self, slots, self._executors_timeout_s)
        check_python(self._context, self._execution)
        self._checked_slots = slots

    def start(self, order: SlotOrder, failed: Callable[[str, bool], None]) -> None:
        gone = why_gone(self._context)
        if gone is not None:
            failed(gone, True)
            return
        if order.slot_host is None and capacity.is_local(self._context):
            order = replace(order, slot_host=LOOPBACK)
        job = BarrierJob(self._context, self._pool, self._executors_timeout_s, order, failed)
        with self._guard:
            if self._is_closed:
                return
            before, self._job = self._job, job
        if before is not None:  # released while it was being started
            before.release(0)
        job.start()

    def release(self, timeout_s: float, silent: SilentSlots = no_slots) -> None:
        with self._guard:
            job, self._job = self._job, None
        if job is not None:
            job.release(timeout_s, silent)

    def why_gone(self) -> str | None:
        return why_gone(self._context)

    def close(self) -> None:
        with self._guard:
            self._is_closed = True
        self.release(0)
        self._checked_slots = 0
        capacity.give_back(self)

    def _check_settings(self) -> None:
        settings = self._context.getConf()
        if _is_on(settings, "spark.dynamicAllocation.enabled"):
            raise ConfigurationError(
                "spark.dynamicAllocation.enabled is on, and Spark then refuses barrier stages; "
                "set it to false and give the number of executors with spark.executor.instances"
            )
        encrypted = [name for name in _ENCRYPTION if _is_on(settings, name)]
        is_tls = self._execution.encryption is Encryption.TLS
        if encrypted and not is_tls and not self._execution.allow_plaintext:
            raise ConfigurationError(
                f"{encrypted[0]} is on, and the connections between the job's processes are not encrypted; encrypt "
                'them with Execution(encryption="tls"), or, if the network is safe, say so with allow_plaintext=True'
            )
        if type(self._context._gateway).__name__ != "ClientServer":
            raise ConfigurationError(
                "PYSPARK_PIN_THREAD=false is set, so Snapline could not set a job group for its own Spark job; unset it"
            )


def check_session(spark: SparkSession) -> None:
    """Raises `ConfigurationError` if no job can run on this session."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "this is a Spark Connect session, which gives no access to tasks; run the driver in classic mode: "
            'SparkSession.builder.master("local[*]") or another master, without remote(...) and SPARK_REMOTE'
        )
    check_running(spark.sparkContext)


def check_running(context: Any) -> None:
    if is_stopped(context):
        raise ConfigurationError("Spark was stopped; create a new SparkSession and start the job on it")


def _is_on(settings: Any, name: str) -> bool:
    return str(settings.get(name, "false")).strip().lower() == "true"

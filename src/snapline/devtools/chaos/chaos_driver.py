"""The driver of a job under chaos, in its own process.

It reports the state of the job as lines of JSON on standard output, one per change.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapline.config import Checkpoints, Execution, ExponentialDelay
from snapline.devtools.kit.exactly_once import NumberingJob, numbering_job
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster
from snapline.types import JobStatus

MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {"unaligned": True},
    "timeout": {"unaligned": True, "aligned_timeout": "30ms"},
    "at-least-once": {"mode": "AT_LEAST_ONCE"},
}
ROWS_PER_SECOND = 5000
PARALLELISM = 2
INTERVAL_S = 0.2
POLL_S = 0.02

# Imported by name: only deployments on Spark need pyspark.
_EMBEDDED_SPARK = "snapline.spark.embedded_spark"


@dataclass(frozen=True, slots=True)
class DriverOrder:
    """What a driver runs, and where. Without `master` it needs no Spark; `settings` are Spark's."""

    directory: str
    mode: str
    rows: int
    back_pressure: bool
    master: str | None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def fail_file(self) -> Path:
        """User code raises when this file is created."""
        return Path(self.directory) / "fail"

    @property
    def output(self) -> Path:
        return Path(self.directory) / "out"


def chaos_job(order: DriverOrder) -> NumberingJob:
    """The job. Its sink limits the speed under back-pressure, otherwise its source does, to the same speed."""
    options: dict[str, Any] = {"channel_memory": "2KB", "batch_size": "1KB"} if order.back_pressure else {}
    return numbering_job(
        "chaos",
        order.directory,
        rows=order.rows,
        rows_per_second=None if order.back_pressure else ROWS_PER_SECOND,
        slow=1000 * PARALLELISM / ROWS_PER_SECOND if order.back_pressure else 0.0,
        parallelism=PARALLELISM,
        checkpoints=lambda storage: Checkpoints(
            interval=f"{INTERVAL_S * 1000:.0f}ms", storage=storage, **MODES[order.mode]
        ),
        execution=Execution(heartbeat_interval="200ms", heartbeat_timeout="3s", cancel_timeout="1s", **options),
        restart=ExponentialDelay(initial_backoff="10ms", max_backoff="50ms"),
        fail_file=str(order.fail_file),
        batch_rows=50 if order.back_pressure else 1000,
    )


@contextlib.contextmanager
def place(order: DriverOrder) -> Iterator[Any]:
    """What to start the job on."""
    if order.master is None:
        yield ProcessCluster()
        return
    root = Path(order.directory)
    embedded = importlib.import_module(_EMBEDDED_SPARK)
    spark = embedded.EmbeddedSpark(4, root / "spark", root / "spark.log", master=order.master, settings=order.settings)
    try:
        yield spark.start()
    finally:
        spark.stop()


def main(text: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    order = DriverOrder(**json.loads(text))
    with place(order) as where:
        handle = chaos_job(order).job.start(where)
        assert isinstance(handle, MasterHandle)
        status = report_until_end(handle)
    return 0 if status is JobStatus.FINISHED else 1


def report_until_end(handle: MasterHandle) -> JobStatus:
    reported: dict[str, Any] = {}
    last_event: tuple[int, str] | None = None
    while True:
        # Status first: what is reported with a last one is then final.
        status = handle.status()
        events = handle.events()
        new = events[next((index + 1 for index, it in enumerate(events) if it is last_event), 0) :]
        last_event = events[-1] if events else None
        report = {
            "status": status.value,
            "attempt": handle.attempt,
            "completed": handle.checkpoints().counts.completed,
            "cause": handle.cause,
        }
        if report != reported or new:
            print(json.dumps({**report, "events": [event for _, event in new]}), flush=True)
            reported = report
        if status.is_globally_terminal or status is JobStatus.SUSPENDED:
            return status
        time.sleep(POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

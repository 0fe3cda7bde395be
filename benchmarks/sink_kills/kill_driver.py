"""The driver of a round, in a process of its own, so that it can be killed and started again."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

from benchmarks.sink_kills.deadly_sink import DeadlySink, KillPlan
from benchmarks.sink_kills.kill_targets import TARGETS
from benchmarks.sink_kills.numbers_source import Numbers

import snapline as sl
from snapline.testing import ProcessCluster, ThreadCluster

PARALLELISM = 2
INTERVAL = "150ms"
ROWS_PER_SECOND = 4000


def main(root: Path) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    order = json.loads((root / "order.json").read_text())
    target = TARGETS[order["target"]]
    plan = KillPlan(str(root), order["victim"], tuple(order["points"]), order["seed"])
    (root / "driver.pid").write_text(str(os.getpid()))
    job = sl.Job(
        "kills",
        parallelism=PARALLELISM,
        checkpoints=sl.Checkpoints(interval=INTERVAL, storage=root / "checkpoints"),
        execution=sl.Execution(heartbeat_interval="200ms", heartbeat_timeout="3s", cancel_timeout="1s"),
        restart=sl.ExponentialDelay(initial_backoff="10ms", max_backoff="500ms"),
    )
    sink = DeadlySink(target.make_sink(order["place"]), plan)
    job.source(Numbers(root, ROWS_PER_SECOND), uid="numbers").sink(sink, uid="out")
    cluster = ThreadCluster() if order["in_threads"] else ProcessCluster()
    return 0 if job.run(cluster) is sl.JobStatus.FINISHED else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

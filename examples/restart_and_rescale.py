"""Stop a job with a savepoint, change it, and continue from there with another parallelism.

Run it with `python examples/restart_and_rescale.py`. It needs no Spark: slots are processes on this machine. On Spark,
replace the cluster with a SparkSession; everything else stays the same.
"""

from __future__ import annotations

import tempfile
import time

import snapline as sl
from snapline.testing import ProcessCluster

ROWS = 20_000


def make_job(directory: str, *, id: str, parallelism: int, restore_from: str | None = None) -> sl.Job:
    """Builds the job. Every version has its own id, and the same uids."""
    checkpoints = sl.Checkpoints(interval="200ms", storage=f"{directory}/checkpoints", restore_from=restore_from)
    job = sl.Job("clicks", id=id, parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    (
        job.source(sl.sources.Rate(8_000, rows=ROWS, users=5, splits=4), uid="clicks")
        .key_by("user")
        .aggregate(n=sl.count(), uid="per-user")
        .sink(sl.sinks.Files(f"{directory}/counts"), uid="counts")
    )
    return job


def counts(directory: str) -> dict[str, int]:
    """Returns the latest count of each user."""
    found = sl.sinks.read_files(f"{directory}/counts").group_by("user").aggregate([("n", "max")])
    return dict(sorted(zip(found["user"].to_pylist(), found["n_max"].to_pylist(), strict=True)))


def main(directory: str) -> None:
    cluster = ProcessCluster()

    first = make_job(directory, id="clicks-v1", parallelism=1).start(cluster)
    while first.checkpoints().counts.completed < 1:  # so that there is something to continue from
        time.sleep(0.05)
    savepoint = first.stop(f"{directory}/savepoints", timeout="30s")
    print("first version:", first.status().value, counts(directory))

    second = make_job(directory, id="clicks-v2", parallelism=2, restore_from=savepoint).start(cluster)
    second.wait("60s")
    print("second version:", second.status().value, counts(directory))
    print("every row counted once:", sum(counts(directory).values()) == ROWS)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)

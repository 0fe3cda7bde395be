"""A driver in a process of its own that keeps a history, for the tests that kill it. Argument: the directory.

The job fails once, in its first attempt, after its second checkpoint.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import snapline as sl
from snapline.runtime.master import job_history
from snapline.testing.clusters import ThreadCluster

INTERVAL_S = 0.5


def history_job(directory: Path, *, rows: int | None = None, storage: str | None = None, **more: object) -> sl.Job:
    """Counts clicks; `once` in the directory makes it fail, once."""
    options = {"storage_options": more.pop("storage_options", None)}
    job = sl.Job(
        "clicks",
        id="clicks",
        parallelism=2,
        max_parallelism=8,
        checkpoints=sl.Checkpoints(interval="100ms", storage=storage or directory / "storage", **options),  # type: ignore[arg-type]
        restart=sl.FixedDelay(attempts=5, delay="10ms"),
        monitoring=sl.Monitoring(enabled=False, **more),  # type: ignore[arg-type]
    )
    marker = str(directory / "once")

    def check(row: sl.Row) -> bool:
        if row["id"] > 300 and Path(marker).exists():
            Path(marker).unlink(missing_ok=True)
            raise ValueError("a bad click")
        return True

    (
        job.source(sl.sources.Rate(500, rows=rows, users=4, splits=2), uid="clicks")
        .filter(check, uid="check")
        .key_by("user")
        .aggregate(n=sl.count(), uid="per-user")
        .sink(sl.sinks.Files(directory / "out"), uid="out")
    )
    return job


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    # Tests cannot wait as long as people can.
    job_history.WRITE_INTERVAL_S = INTERVAL_S
    handle = history_job(Path(sys.argv[1])).start(ThreadCluster())
    sys.stdout.write("started\n")
    sys.stdout.flush()
    sys.stdout.write(f"{handle.wait().value}\n")


if __name__ == "__main__":
    main()

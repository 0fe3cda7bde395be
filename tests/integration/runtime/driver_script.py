"""A driver in a process of its own, for the tests that kill it: runs one job to its end and says how it ended.

Arguments: the directory, the mode, the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.integration.runtime.runtime_kit import RESTART, settings, small

from snapline.devtools.kit.exactly_once import numbering_job
from snapline.testing.clusters import ProcessCluster


def main() -> None:
    directory, mode, rows = sys.argv[1:]
    job = numbering_job(
        "driven",
        directory,
        id="driven",
        rows=int(rows),
        rows_per_second=6_000,
        checkpoints=settings(mode),
        restart=RESTART,
        execution=small(heartbeat_timeout="60s"),
    )
    handle = job.job.start(ProcessCluster())
    sys.stdout.write("started\n")
    sys.stdout.write(f"{handle.wait().value}\n")


if __name__ == "__main__":
    main()

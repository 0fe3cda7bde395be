"""Made `tests/golden/job-v1`, run once as `python -m tests.golden.make_job DIR` with the version those files stand for.

Kept for reference: the files are never made again. Each directory holds what one interrupted run left behind: its
storage (`checkpoints`, `savepoints`) and its output. `expected.json` is the output of an uninterrupted run.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.golden.golden_holds import HERE, WAITING, Holds, pass_hold, reached, wait_until
from tests.golden.golden_job import CORE, HALFWAY, MORE, make_job, run_to_the_end
from tests.golden.golden_results import finished_tasks, results

import snapline as sl
from snapline.testing.clusters import ThreadCluster

WHOLE = Holds(rows=HALFWAY, questions=40, commits=True)
PAUSED = Holds(rows={uid: HALFWAY[uid] for uid in ("events", "users", "rules")}, questions=40)
UNCOMMITTED = Holds(rows=PAUSED.rows, questions=40, commits=True)
TWICE = Holds(rows={"events": [[20, 40], [20, 40]], "users": [[3, 5]], "rules": [[2, 3]]}, questions=40, commits=True)
CLOGGED = Holds(rows={"users": [[5]], "rules": [[3]]}, full={"ledger": 5, "numbering": 10}, questions=10)
UNEVEN = Holds(rows={"events": [[20], []]}, questions=10)
"""All sources end, except one subtask of the events."""


def start(
    name: str,
    holds: Holds,
    *,
    parts: Collection[str] | None = CORE,
    execution: sl.Execution | None = None,
    **checkpoints: Any,
) -> sl.JobHandle:
    """Start the job and wait until it is held up."""
    settings = sl.Checkpoints(
        storage=HERE / "checkpoints",
        savepoint_dir=HERE / "savepoints",
        externalized="RETAIN_ON_CANCELLATION",
        committer_retries=1_000_000,
        **checkpoints,
    )
    job = make_job(name, settings, parts=parts, execution=execution, holds=holds)
    handle = job.start(ThreadCluster())
    reached(holds, 0)
    return handle


def aligned() -> None:
    handle = start("aligned", WHOLE, parts=None, inline_threshold="1KB")
    handle.checkpoint(timeout="60s")
    handle.cancel("60s")


def unaligned() -> None:
    execution = sl.Execution(channel_memory="1KB", batch_size="1KB")
    handle = start("unaligned", CLOGGED, execution=execution, unaligned=True, inline_threshold="1KB")

    def has_in_flight_data() -> bool:
        handle.checkpoint(timeout="60s")
        latest = handle.checkpoints().latest.completed
        return latest is not None and latest.totals.persisted_bytes > 0

    wait_until(has_in_flight_data, "a checkpoint with in-flight data")
    handle.cancel("60s")


def savepoint() -> None:
    handle = start("savepoint", PAUSED, parts=MORE, compress=True, inline_threshold="1KB")
    handle.savepoint(format=sl.SavepointFormat.CANONICAL, timeout="60s")
    handle.cancel("60s")


def native() -> None:
    execution = sl.Execution(state_backend="rocksdb")
    handle = start("native", TWICE, execution=execution, incremental=True, inline_threshold=0, parts=MORE)
    handle.checkpoint(timeout="60s")
    pass_hold(0)
    reached(TWICE, 1)
    handle.checkpoint(timeout="60s")
    handle.cancel("60s")


def finished() -> None:
    handle = start("finished", UNEVEN)

    def has_finished_tasks() -> bool:
        try:
            return finished_tasks(handle.checkpoint(timeout="60s")) >= {"users", "rules", "events/1"}
        except sl.SnapshotFailedError:  # a task was about to finish
            return False

    wait_until(has_finished_tasks, "a checkpoint with finished tasks")
    handle.cancel("60s")


def stopped() -> None:
    start("stopped", PAUSED).stop(timeout="60s")


def suspended() -> None:
    handle = start("suspended", UNCOMMITTED)
    handle.checkpoint(timeout="60s")
    handle.suspend("60s")


def uninterrupted() -> None:
    run_to_the_end(ThreadCluster())


def make(directory: Path) -> None:
    runs = (aligned, unaligned, savepoint, native, finished, stopped, suspended, uninterrupted)
    for run in runs:
        place = directory / run.__name__
        place.mkdir(parents=True)
        os.chdir(place)
        sys.stderr.write(f"{run.__name__}\n")
        run()
        shutil.rmtree(WAITING, ignore_errors=True)
    expected = ",\n".join(f"{json.dumps(what)}: {json.dumps(rows)}" for what, rows in results().items())
    (directory / "expected.json").write_text(f"{{\n{expected}\n}}\n")
    os.chdir(directory)
    shutil.rmtree("uninterrupted")
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir() and not any(path.iterdir()):  # git does not keep empty directories
            path.rmdir()


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())

"""An old savepoint under a sink that holds newer output is refused, unless the user allows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.test_source_contract import wait_until

import snapline as sl
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow


def make_job(root: Path, id: str, **checkpoints: object) -> sl.Job:
    settings = sl.Checkpoints(interval="50ms", storage=root / "checkpoints", **checkpoints)  # type: ignore[arg-type]
    job = sl.Job("numbers", id=id, checkpoints=settings)
    job.source(sl.sources.Sequence(0, rows_per_second=2000), "numbers").sink(sl.sinks.Files(root / "out"), "out")
    return job


def test_an_older_savepoint_is_refused_where_newer_output_is(tmp_path: Path) -> None:
    first = make_job(tmp_path, "first").start(ThreadCluster())
    wait_until(lambda: first.checkpoints().counts.completed > 2, "checkpoints complete")
    old = first.savepoint(str(tmp_path / "savepoints"))
    count = first.checkpoints().counts.completed
    wait_until(lambda: first.checkpoints().counts.completed > count + 2, "newer output is committed")
    new = first.stop(savepoint=str(tmp_path / "savepoints"))
    assert new is not None

    refused = make_job(tmp_path, "second", restore_from=old).start(ThreadCluster())
    with pytest.raises(sl.JobFailedError, match="holds output up to checkpoint"):
        refused.wait("120s")
    assert "'out' holds output up to checkpoint" in refused.cause
    assert "allow_newer_output=True" in refused.cause

    allowed = make_job(tmp_path, "third", restore_from=old, allow_newer_output=True).start(ThreadCluster())
    wait_until(lambda: allowed.checkpoints().counts.completed > 1, "it runs")
    allowed.cancel()

    newest = make_job(tmp_path, "fourth", restore_from=new).start(ThreadCluster())
    wait_until(lambda: newest.checkpoints().counts.completed > 1, "it runs from the newest")
    newest.cancel()

    again = make_job(tmp_path, "fifth", restore_from=new).start(ThreadCluster())
    with pytest.raises(sl.JobFailedError, match="holds output of a job that was started from"):
        again.wait("120s")


def test_ids_are_not_compared_across_lineages(tmp_path: Path) -> None:
    """A job whose checkpoints are deleted starts from scratch, and its output is not taken for that of the first."""
    import shutil

    for _ in range(2):
        handle = make_job(tmp_path, "same").start(ThreadCluster())
        wait_until(lambda handle=handle: handle.checkpoints().counts.completed > 2, "checkpoints complete")  # type: ignore[misc]
        handle.cancel()
        shutil.rmtree(tmp_path / "checkpoints")
    values = sorted(sl.sinks.read_files(tmp_path / "out")["value"].to_pylist())
    assert values.count(0) == 2, "both starts have written"

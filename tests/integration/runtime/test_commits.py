"""Commits that fail, on their own or with the process that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.runtime.runtime_kit import RESTART, Start, Unwilling, settings, small

from snapline.api.job import Job
from snapline.connectors.rate import Rate
from snapline.devtools.kit.exactly_once import NUMBERED, Numbering, prove
from snapline.testing.clusters import ProcessCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow

ROWS = 10_000


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("retries", "errors"), [(3, 0), (0, 2)])
def test_exactly_once_although_commits_fail(
    start: Start, tmp_path: Path, retries: int, errors: int, after: bool
) -> None:
    """`after`: the commit has been made, and then failed."""
    counts = tmp_path / "counts"
    counts.mkdir()
    job = Job(
        "unwilling",
        parallelism=2,
        checkpoints=settings("unaligned")(str(tmp_path / "chk")),
        restart=RESTART,
        execution=small(),
    )
    rows = job.source(Rate(8000, rows=ROWS, users=20, batch_rows=200), uid="rows")
    numbered = rows.key_by("user").apply(Numbering(), uid="numbering", schema=NUMBERED)
    numbered.sink(Unwilling(tmp_path / "out", counts, retries=retries, errors=errors, after=after), uid="out")
    handle = start(job, ProcessCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert (handle.attempt > 1) == bool(errors)
    assert prove(tmp_path / "out", ROWS).problems == ()

"""A program that ends while its job runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from snapline.config import Checkpoints
from snapline.devtools.kit.exactly_once import numbering_job
from snapline.testing.clusters import ThreadCluster
from snapline.types import JobStatus

PROGRAM = """
import sys
from snapline.config import Checkpoints
from snapline.testing.clusters import ProcessCluster
from snapline.devtools.kit.exactly_once import numbering_job

made = numbering_job(
    "ends", sys.argv[1], rows=20_000, rows_per_second=20_000,
    checkpoints=lambda storage: Checkpoints(interval="50ms", storage=storage),
)
handle = made.job.start(ProcessCluster())
handle.checkpoint()
"""


@pytest.mark.slow
def test_the_job_is_suspended_and_the_next_program_goes_on_with_it(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0
    assert "the program ends while job ends runs" in ended.stderr
    assert "Traceback" not in ended.stderr
    made = numbering_job(
        "ends",
        tmp_path,
        rows=20_000,
        rows_per_second=200_000,
        checkpoints=lambda storage: Checkpoints(interval="50ms", storage=storage),
    )
    handle = made.job.start(ThreadCluster())
    assert handle.wait("120s") is JobStatus.FINISHED
    assert handle.attempt == 2
    assert made.prove().problems == ()

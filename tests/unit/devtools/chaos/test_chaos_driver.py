"""The driver process of chaos: which job it runs and what it reports. No Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from snapline.devtools.chaos.chaos_driver import MODES, DriverOrder, chaos_job
from snapline.devtools.kit.exactly_once import prove
from snapline.types import JobStatus


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("back_pressure", [False, True])
def test_there_is_a_job_for_every_mode(mode: str, back_pressure: bool, tmp_path: Path) -> None:
    order = DriverOrder(str(tmp_path), mode, rows=100, back_pressure=back_pressure, master=None)
    made = chaos_job(order)
    assert made.job.checkpoints.unaligned is (mode in ("unaligned", "timeout"))
    assert made.output == str(order.output)
    assert ("slow" in {node.uid for node in made.job.nodes}) is back_pressure


@pytest.mark.slow
def test_the_driver_reports_its_job_to_the_end(tmp_path: Path) -> None:
    order = DriverOrder(str(tmp_path), "aligned", rows=1000, back_pressure=False, master=None)
    command = [sys.executable, "-m", "snapline.devtools.chaos.chaos_driver", json.dumps(asdict(order))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert (reports[-1]["status"], reports[-1]["attempt"]) == (JobStatus.FINISHED.value, 1)
    assert prove(order.output, 1000).is_exactly_once

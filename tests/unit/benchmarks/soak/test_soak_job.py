"""The comparison of the outputs with what they must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.soak import soak_job
from benchmarks.soak.paced_source import Limit

from snapline.devtools.chaos.chaos_driver import DriverOrder
from snapline.testing.clusters import ThreadCluster

ROWS = 10 * soak_job.STEP_ROWS
OUTPUTS = ("numbered", "windows", "joined", "timed")


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> DriverOrder:
    """A job that has run without any trouble, in this process."""
    directory = tmp_path_factory.mktemp("soak") / "disk"
    directory.mkdir()
    order = DriverOrder(str(directory), "timeout", ROWS, False, None)
    Limit(soak_job.limit_file(order)).set(ROWS, is_last=True)
    soak_job.soak_job(order).run(ThreadCluster())
    return order


def test_the_outputs_of_a_good_run_are_what_they_must_be(order: DriverOrder) -> None:
    assert soak_job.problems(order) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_lost_file_is_noticed(order: DriverOrder, name: str) -> None:
    file = next(it for it in sorted((Path(order.directory) / name).glob("*.parquet")))
    content = file.read_bytes()
    file.unlink()
    try:
        assert any(problem.startswith(f"{name}: ") for problem in soak_job.problems(order))
    finally:
        file.write_bytes(content)
    assert soak_job.problems(order) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_doubled_file_is_noticed(order: DriverOrder, name: str) -> None:
    file = next(it for it in sorted((Path(order.directory) / name).glob("*.parquet")))
    copy = file.with_name(f"copy-of-{file.name}")
    copy.write_bytes(file.read_bytes())
    try:
        assert any(problem.startswith(f"{name}: ") for problem in soak_job.problems(order))
    finally:
        copy.unlink()


def test_rows_beyond_the_end_are_noticed(order: DriverOrder) -> None:
    found = soak_job.problems(replace(order, rows=ROWS - soak_job.STEP_ROWS))
    assert {problem.split(":")[0] for problem in found} >= {"numbered", "joined"}

"""Files that define a job. Running one is in tests/spark/test_command_line.py."""

from __future__ import annotations

import sys

import snapline as sl
from snapline.cli.job_file import as_main, jobs_defined


def test_jobs_at_the_top_level_each_once() -> None:
    first, second = sl.Job("a"), sl.Job("b")
    names = {"x": 1, "job": first, "same": first, "Job": sl.Job, "other": second, "many": [sl.Job("c")]}
    assert jobs_defined(names) == [first, second]
    assert jobs_defined({}) == []


def test_the_program_is_main_while_its_job_runs() -> None:
    before = sys.modules["__main__"]
    with as_main({"Price": int, "__name__": "__main__"}):
        assert sys.modules["__main__"].Price is int
    assert sys.modules["__main__"] is before

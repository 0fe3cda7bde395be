"""`snapline run`: programs that start jobs, files that define one, and options of spark-submit."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from snapline import cli
from snapline.api import live_line

Output = pytest.CaptureFixture[str]

PROGRAM = """
import sys
import snapline as sl
from snapline.testing import ThreadCluster

def same(batch):
    if sys.argv[1:] == ["--break"]:
        raise KeyError("price")
    return batch

job = sl.Job("clicks")
stream = job.source(sl.sources.Rate(rows=10), uid="rows")
stream.map_batches(same, uid="same", schema=stream.schema).sink(sl.sinks.Files("out"), uid="out")
if __name__ == "__main__":
    print(sys.argv[1:], job.run(ThreadCluster()).value)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(live_line, "_always", threading.Event())
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "clicks.py").write_text(PROGRAM, encoding="utf-8")
    return str(tmp_path / "clicks.py")


def test_a_program_is_run_with_the_progress_of_its_jobs(program: str, capsys: Output) -> None:
    assert cli.main(["run", program, "--fast", "2"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "['--fast', '2'] FINISHED\n"
    assert "clicks: FINISHED after " in shown.err


def test_a_program_whose_job_fails_shows_its_cause_and_the_traceback_of_its_own_code(
    program: str, capsys: Output
) -> None:
    assert cli.main(["run", program, "--break"]) == 1
    first, *rest = capsys.readouterr().err.partition("snapline: ")[2].splitlines()
    assert first.startswith(
        "job 'clicks' has failed: rows/0#1: UserCodeError: map_batches 'same' raised KeyError: 'price'"
    )
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "KeyError: 'price'"
    assert sum(line.startswith("Traceback") for line in rest) == 1


def test_a_program_that_is_not_there_costs_one_line(tmp_path: Path, capsys: Output) -> None:
    assert cli.main(["run", str(tmp_path / "nothing.py")]) == 2
    assert capsys.readouterr().err == (f"snapline: there is no file '{tmp_path}/nothing.py'; see snapline run --help\n")


def test_several_jobs_that_nobody_starts(program: str, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "jobs.py"
    file.write_text("import snapline as sl\na, b = sl.Job('orders'), sl.Job('sales')\n")
    assert cli.main(["run", str(file)]) == 2
    assert "defines several jobs (orders, sales) and starts none" in capsys.readouterr().err


def test_a_program_without_jobs(program: str, tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "hello.py"
    file.write_text("import sys\nprint('hello', sys.argv[1:])\n")
    assert cli.main(["run", str(file), "--conf", "x"]) == 0
    assert capsys.readouterr().out == "hello ['--conf', 'x']\n"


def test_options_of_spark_submit_come_before_the_program(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    assert cli.main(["run", "--master", "local[2]", "--conf", "a=b", program, "--conf"]) == 0
    assert os.environ["PYSPARK_SUBMIT_ARGS"].endswith("--master 'local[2]' --conf a=b pyspark-shell")
    assert capsys.readouterr().out == "['--conf'] FINISHED\n"
    assert cli.main(["run", "--deploy-mode", "cluster", program]) == 2

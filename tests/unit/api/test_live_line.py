"""The progress of a job on standard error."""

from __future__ import annotations

import io
import threading
import time
from pathlib import Path

import pytest

import snapline as sl
from snapline.api import live_line
from snapline.api.live_line import LiveLine
from snapline.testing import ThreadCluster
from snapline.types import JobStatus

Output = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def make_job(directory: Path, *, rows: int | None = 100) -> sl.Job:
    job = sl.Job("clicks", checkpoints=sl.Checkpoints(interval="50ms", storage=directory / "checkpoints"))
    job.source(sl.sources.Rate(rows_per_second=10_000, rows=rows), uid="rows").sink(
        sl.sinks.Files(directory / "out"), uid="out"
    )
    return job


def test_without_a_terminal_there_are_lines_on_standard_error(tmp_path: Path, capsys: Output) -> None:
    make_job(tmp_path).run(ThreadCluster(), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.splitlines()[-1]
    assert last.startswith("clicks: FINISHED after ")
    assert last.endswith(" checkpoints")


def test_nothing_is_shown_unless_it_is_asked_for(tmp_path: Path, capsys: Output) -> None:
    make_job(tmp_path).run(ThreadCluster())
    assert capsys.readouterr() == ("", "")


def test_a_started_job_is_followed_in_the_background(tmp_path: Path, capsys: Output) -> None:
    handle = make_job(tmp_path).start(ThreadCluster(), progress=True)
    (thread,) = [it for it in threading.enumerate() if it.name == f"progress-{handle.id}"]
    handle.wait("30s")
    thread.join(30)
    assert "clicks: FINISHED after " in capsys.readouterr().err


def test_every_job_is_shown_where_the_command_asks_for_it(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_line, "_always", threading.Event())
    live_line.show_always()
    make_job(tmp_path).run(ThreadCluster())
    assert "clicks: FINISHED after " in capsys.readouterr().err


def test_on_a_terminal_one_line_changes(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live_line, "POLL_S", 0.01)
    terminal = Terminal()
    handle = make_job(tmp_path, rows=None).start(ThreadCluster())
    line = LiveLine(handle, terminal)
    line.start()
    deadline_s = time.monotonic() + 30
    while "checkpoint 1" not in terminal.getvalue():
        assert time.monotonic() < deadline_s
        handle.progress()
    handle.cancel("30s")
    line.close()
    shown = terminal.getvalue()
    assert "clicks: RUNNING, " in shown
    assert " rows/s" in shown
    assert "\x1b[2K" in shown, "the line is erased before it is drawn again"
    assert "clicks: CANCELED after " in shown
    assert capsys.readouterr() == ("", "")


def test_lines_of_several_jobs_are_below_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    first, second = (live_line._open_display(terminal) for _ in range(2))
    first.show(JobStatus.RUNNING, "first job")
    second.show(JobStatus.RUNNING, "second job")
    assert "first job\nsecond job" in terminal.getvalue()
    first.close()
    second.show(JobStatus.FINISHED, "second job has ended")
    second.close()
    assert "first job\nsecond job has ended" in terminal.getvalue()

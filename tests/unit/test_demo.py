"""The demo: what it reads, what it makes of it, and how it looks. The whole of it runs in tests/spark."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from snapline import cli
from snapline.connectors.rate import Rate
from snapline.contracts.source import ReaderContext
from snapline.demo.clicks import CLICK, USERS, named
from snapline.demo.results import Results
from snapline.demo.run import DemoOptions
from snapline.demo.screen import LineScreen, LiveScreen, line, open_screen, picture, size
from snapline.demo.story import CheckpointLine, Moment, Story, View
from snapline.devtools.kit import processes
from snapline.errors import ConfigurationError
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics, CheckpointStatus, SubtaskMetrics
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.spark.embedded_spark import check_java, java_version
from snapline.types import ExecutionId, JobStatus, SnapshotKind, SubtaskId


def _commit(directory: Path, checkpoint: int, subtask: int, numbers: dict[str, list[int]]) -> Path:
    rows = [{"id": 0, "user": user, "number": number} for user, given in numbers.items() for number in given]
    path = directory / f"results-{checkpoint:010d}-{subtask}-1-{checkpoint:08x}{subtask:08x}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def _task(attempt: int, rows: int, index: int = 0, vertex: str = "clicks") -> TaskMetrics:
    return TaskMetrics(ExecutionId(SubtaskId(vertex, index), attempt), rows, rows, 0, 0, 250, 0, 250, 0, 0, 0)


def _view(**changes: object) -> View:
    values: dict[str, object] = {
        "elapsed_ms": 23_800,
        "status": JobStatus.RUNNING,
        "attempt": 2,
        "rows": 412_345,
        "total_rows": 900_000,
        "rows_per_second": 19_874.3,
        "committed_rows": 401_200,
        "committed_files": 44,
        "top": (("ada", 61_229), ("grace", 33_386)),
        "checkpoints": (
            CheckpointLine(15, CheckpointStatus.IN_PROGRESS),
            CheckpointLine(14, CheckpointStatus.COMPLETED, 37, 6811),
            CheckpointLine(13, CheckpointStatus.FAILED),
        ),
        "completed": 13,
        "moments": (Moment(21_000, "kill -9 4711: something", "bad"), Moment(22_900, "running again", "good")),
    }
    return View(**{**values, **changes})  # type: ignore[arg-type]


def _drawn(view: View, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True)
    console.print(picture(view, narrow=width < 72))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# The job.


def test_few_users_click_far_more_than_others() -> None:
    source = Rate(rows=20_000, users=1000)
    reader = source.reader(ReaderContext("job", "rows", 0, 1))
    for split in source.splits(1):
        reader.add_split(split, None)
    counts: Counter[str] = Counter()
    while isinstance(batch := reader.read(), pa.RecordBatch):
        clicks = named(batch)
        assert clicks.schema == CLICK
        assert clicks.column("id").equals(batch.column("id"))
        counts.update(clicks.column("user").to_pylist())
    assert set(counts) == set(USERS)
    assert counts.total() == 20_000
    assert counts.most_common(1)[0][0] == USERS[0]
    assert counts[USERS[0]] > 4 * counts[USERS[-1]]


def test_who_clicked_can_be_told_of_no_rows() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=Rate(rows=1).schema)
    assert named(empty).num_rows == 0


# Committed files, as they appear.


def test_results_are_read_as_they_appear_and_each_file_once(tmp_path: Path) -> None:
    output = tmp_path / "out"
    results = Results(output)
    results.refresh()
    assert (results.rows, results.files, results.top(5)) == (0, 0, ())
    output.mkdir()
    first = _commit(output, 1, 0, {"ada": [1, 2, 3], "alan": [1]})
    results.refresh()
    assert results.top(5) == (("ada", 3), ("alan", 1))
    first.write_bytes(b"nobody looks here again")
    _commit(output, 2, 0, {"ada": [4]})
    _commit(output, 2, 1, {"grace": [1, 2, 3, 4, 5]})
    results.refresh()
    assert results.top(2) == (("grace", 5), ("ada", 4))
    assert (results.rows, results.files) == (10, 3)
    assert [results.rows_until(checkpoint) for checkpoint in (0, 1, 2, 99)] == [0, 4, 10, 10]


def test_results_leave_out_what_is_not_committed(tmp_path: Path) -> None:
    pending = tmp_path / ".pending" / "clicks" / "results"
    pending.mkdir(parents=True)
    _commit(pending, 1, 0, {"ada": [1]})
    (tmp_path / "notes.txt").write_text("mine")
    results = Results(tmp_path)
    results.refresh()
    assert results.files == 0


# The story.


def test_a_kill_is_followed_from_the_failure_to_the_recovery() -> None:
    story = Story(1000, started_ms=10_000)
    events = [(10_100, "attempt 1 starts from the beginning"), (11_000, "attempt 1 runs")]
    story.follow(events)
    story.killed(20_000, 4711, "a worker", "all is gone")
    recovering = [story.is_recovering]
    events += [
        (20_050, "RUNNING -> FAILING"),
        (20_050, "attempt 1 failed: slot 0 is lost"),
        (20_300, "attempt 2 starts from /somewhere/chk/clicks/chk-14"),
    ]
    story.follow(events)
    recovering.append(story.is_recovering)
    events.append((21_500, "attempt 2 runs"))
    story.follow(events)
    story.follow(events)
    assert [*recovering, story.is_recovering] == [True, True, False]
    (restart,) = story.restarts
    assert (restart.victim, restart.checkpoint_id, restart.recovery_s) == ("a worker", 14, 1.5)
    assert [moment.text for moment in story.moments] == [
        "the job runs",
        "kill -9 4711: a worker; all is gone",
        "attempt 1 has failed: slot 0 is lost",
        "attempt 2 starts from checkpoint 14: its counts, and its place in the clicks",
        "running again after 1.5 s",
    ]
    assert [moment.at_ms for moment in story.moments] == [1000, 10_000, 10_050, 10_300, 11_500]


def test_a_failure_that_nobody_caused_is_told_too() -> None:
    story = Story(1000, started_ms=0)
    story.follow(
        [
            (5, "attempt 1 starts from the beginning"),
            (10, "attempt 1 runs"),
            (1000, "attempt 1 failed: " + "long " * 200),
            (1200, "attempt 2 starts from the beginning"),
            (3000, "attempt 2 runs"),
        ]
    )
    (restart,) = story.restarts
    assert (restart.victim, restart.checkpoint_id, restart.recovery_s) == (None, None, 2.0)
    assert all(len(moment.text) < 200 for moment in story.moments)


def test_the_count_of_clicks_goes_back_to_the_checkpoint_with_a_restart(tmp_path: Path) -> None:
    _commit(tmp_path, 1, 0, {"ada": [*range(1, 101)]})
    _commit(tmp_path, 2, 0, {"ada": [*range(101, 301)]})
    results = Results(tmp_path)
    results.refresh()
    statistics = CheckpointStatistics().snapshot()
    story = Story(1000, started_ms=0)
    events = [(0, "attempt 1 starts from the beginning"), (0, "attempt 1 runs")]
    story.follow(events)

    def rows(metrics: dict[str, TaskMetrics], status: JobStatus = JobStatus.RUNNING) -> int:
        return story.view(1000, status, statistics, metrics, results).rows

    of_both = {"clicks/0": _task(1, 200), "clicks/1": _task(1, 150, 1), "counts/0": _task(1, 340, vertex="counts")}
    assert rows(of_both) == 350
    events += [(500, "attempt 1 failed: killed"), (600, "attempt 2 starts from /d/chk-1")]
    story.follow(events)
    assert rows(of_both, JobStatus.INITIALIZING) == 100, "what the old attempt said counts no more"
    story.follow([*events, (700, "attempt 2 runs")])
    assert rows({"clicks/0": _task(2, 30)}) == 130
    assert rows({}) == 130
    assert rows({}, JobStatus.FINISHED) == 1000


def test_the_rate_is_that_of_the_last_seconds(tmp_path: Path) -> None:
    results, statistics = Results(tmp_path), CheckpointStatistics().snapshot()
    story = Story(1_000_000, started_ms=0)
    story.follow([(0, "attempt 1 starts from the beginning")])
    rates = [
        story.view(now_ms, JobStatus.RUNNING, statistics, {"clicks/0": _task(1, rows)}, results).rows_per_second
        for now_ms, rows in ((0, 0), (1000, 100), (2000, 1100), (3000, 2100))
    ]
    assert rates == [0, 100, 550, 1000]


def test_checkpoints_are_shown_newest_first_with_time_and_size(tmp_path: Path) -> None:
    statistics = CheckpointStatistics()
    for number in (1, 2):
        statistics.created(number, SnapshotKind.CHECKPOINT, None, 1000, {"clicks": 1}, unaligned=False)
    statistics.acknowledged(1, "clicks", 0, 1040, SubtaskMetrics(checkpointed_bytes=77))
    statistics.completed(1, 1050, "/d/chk-1")
    view = Story(1, 0).view(0, JobStatus.RUNNING, statistics.snapshot(), {}, Results(tmp_path))
    assert view.checkpoints == (
        CheckpointLine(2, CheckpointStatus.IN_PROGRESS),
        CheckpointLine(1, CheckpointStatus.COMPLETED, 40, 77),
    )
    assert view.completed == 1


# How it looks.


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_picture_fits_and_shows_everything(width: int) -> None:
    drawn = _drawn(_view(), width)
    assert max(map(len, drawn.splitlines())) <= width
    for text in (
        *("412,345", "900,000", "19,874", "401,200", "44 committed files", "ada", "61,229", "13 checkpoints"),
        *("under way", "37 ms", "6.8 kB", "failed", "kill -9 4711: something", "running again", "RUNNING", "24 s"),
    ):
        assert text in drawn, text


def test_the_picture_stays_as_high_and_shows_the_latest() -> None:
    moments = tuple(Moment(index * 1000, f"moment {index} " + "word " * 30) for index in range(50))
    few, many = _drawn(_view(top=(), checkpoints=(), moments=()), 80), _drawn(_view(moments=moments), 80)
    assert len(few.splitlines()) == len(many.splitlines()) <= 22
    assert "moment 49" in many
    assert "moment 0 " not in many


def test_names_are_not_taken_for_markup() -> None:
    assert "[red]" in _drawn(_view(moments=(Moment(0, "[red]x[/red]"),)), 100)


def test_a_line_says_how_far_the_job_is() -> None:
    assert line(_view()) == (
        " 23.8 s  RUNNING | 412,345 of 900,000 clicks (19,874 a second) | 401,200 committed | "
        "checkpoint 14 took 37 ms, 6.8 kB | top: ada 61,229 grace 33,386"
    )


def test_lines_say_each_moment_once_and_figures_once_a_second() -> None:
    file = io.StringIO()
    screen = open_screen(file)
    assert isinstance(screen, LineScreen)
    screen.waiting("Starting Spark")
    for _ in range(3):
        screen.show(_view())
    screen.end("Proof", ["It holds."], is_good=True)
    text = file.getvalue()
    assert text.count("kill -9 4711") == text.count("running again") == text.count("19,874") == 1
    assert text.splitlines()[0] == "Starting Spark"
    assert text.splitlines()[-2:] == ["--- Proof ---", "It holds."]
    assert "\x1b" not in text


def test_a_terminal_gets_a_picture_and_is_left_in_order() -> None:
    file = io.StringIO()
    screen = LiveScreen(Console(file=file, force_terminal=True, width=100, height=30))
    screen.waiting("Starting Spark")
    screen.show(_view())
    screen.show(_view(rows=500_001))
    screen.end("Proof", ["It holds.", "Really."], is_good=True)
    screen.close()
    text = file.getvalue()
    assert "500,001" in text
    assert "It holds." in text
    assert text.count("\x1b[?25h") >= text.count("\x1b[?25l") > 0, "the cursor is shown again"


@pytest.mark.parametrize(("size_bytes", "text"), [(0, "0 B"), (999, "999 B"), (6811, "6.8 kB"), (2_500_000, "2.5 MB")])
def test_sizes(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text


# Processes.


def test_processes_below_this_one_are_found_and_ended() -> None:
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()', 'grandchild'])"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as child:
        try:
            while len(found := [it for it in processes.descendants(child.pid) if "grandchild" in _command(it.pid)]) < 1:
                assert child.poll() is None
            assert child.pid in [it.pid for it in processes.descendants(os.getpid())]
            assert found[0].parent == child.pid
            assert processes.operator_processes(os.getpid()) == []
            ours = [it for it in processes.descendants(os.getpid()) if it.pid in (child.pid, found[0].pid)]
            processes.end(ours, 0)
            assert child.wait(10) == -signal.SIGKILL
            processes.end(ours, 10)
            assert not processes.descendants(child.pid)
        finally:
            child.kill()
    assert not processes.send(child.pid)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


# Mistakes cost one line.


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_291"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea"', 25),
        ("not found", None),
    ],
)
def test_the_version_of_java_is_read(told: str, version: int | None) -> None:
    assert java_version(told) == version


def test_java_that_is_missing_or_too_old_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"no `java` in PATH: install Java 17 or newer"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigurationError, match=r"which JAVA_HOME names, does not run"):
        check_java({"JAVA_HOME": str(tmp_path)})
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    for version, complaint in (('version "11.0.2"', "is Java 11: install Java 17"), ("", "does not say which")):
        program.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
        program.chmod(0o755)
        with pytest.raises(ConfigurationError, match=complaint):
            check_java({"JAVA_HOME": str(tmp_path)})
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    check_java({"JAVA_HOME": str(tmp_path)})


def test_options_say_how_many_clicks_come() -> None:
    assert DemoOptions(duration="2s", rows_per_second=500).rows == 1000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--duration", "soon"], "not a duration"),
        (["--duration", "0s"], "use 1 to"),
        (["--rows-per-second", "0"], "use 1 to"),
        (["--rows-per-second", "many"], "not a number"),
        (["--parallelism", "0"], "--parallelism 0: use 1 to 64"),
        (["--keep", "FULL"], "is not empty"),
        (["--keep", "FULL/file"], "cannot be used as a directory"),
    ],
)
def test_a_mistake_costs_one_line(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    given = [argument.replace("FULL", str(tmp_path)) for argument in arguments]
    assert cli.main(["demo", *given]) == cli.BAD_INPUT
    output = capsys.readouterr()
    assert complaint in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_a_missing_pyspark_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "snapline.spark.embedded_spark", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert cli.main(["demo"]) == cli.BAD_INPUT
    assert "pip install 'snapline[spark]'" in capsys.readouterr().err

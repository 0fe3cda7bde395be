"""The demo's display, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from snapline.demo.screen import LineScreen, LiveScreen, line, open_screen, picture
from snapline.demo.story import CheckpointLine, Moment, View
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus
from snapline.types import JobStatus


def _view(**changes: object) -> View:
    values: dict[str, object] = {
        "elapsed_ms": 23_800,
        "status": JobStatus.RUNNING,
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


PAGE = "http://127.0.0.1:4300/#/jobs/0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_picture_says_where_the_page_is(width: int) -> None:
    drawn = _drawn(_view(page=PAGE), width)
    assert max(map(len, drawn.splitlines())) <= width
    assert PAGE in drawn.replace("\n", "")
    assert "watch it" not in _drawn(_view(), width)


def test_lines_say_once_where_the_page_is() -> None:
    file = io.StringIO()
    screen = LineScreen(file)
    for _ in range(3):
        screen.show(_view(page=PAGE))
    assert file.getvalue().splitlines()[0] == f"watch it at {PAGE}"
    assert file.getvalue().count(PAGE) == 1


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

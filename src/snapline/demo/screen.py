"""The demo's display: a live picture on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from snapline.demo.story import RECENT_CHECKPOINTS, TOP_USERS, CheckpointLine, Moment, View
from snapline.protocol.statistics.checkpoint_records import CheckpointStatus
from snapline.text import size_text
from snapline.types import JobStatus

WIDTH = 100
LINE_INTERVAL_S = 1.0
FRAMES_PER_SECOND = 8

_LEFT_WIDTH = 34
_LEAST_WIDTH = 72  # for two panels side by side
_FIGURE_LINES = TOP_USERS
_EVENT_LINES = RECENT_CHECKPOINTS + 2
_BOX = box.ROUNDED
_MOODS = {"info": "", "bad": "bold red", "good": "bold green"}
_STATUS_STYLES = {JobStatus.RUNNING: "bold green", JobStatus.FINISHED: "bold green", JobStatus.FAILED: "bold red"}


class Screen(Protocol):
    """The demo's display. `close` may be called at any time, and more than once."""

    def waiting(self, text: str) -> None:
        """Show that something takes a while."""

    def show(self, view: View) -> None: ...

    def close(self) -> None:
        """Stop updating; what is shown stays."""

    def say(self, text: str) -> None:
        """Print lines below everything else."""

    def end(self, title: str, lines: Sequence[str], *, is_good: bool) -> None:
        """Show the result; the first line is the most important."""


def open_screen(file: TextIO) -> Screen:
    """Returns a live screen if the file is a terminal that can show it, else one of lines."""
    console = Console(file=file, highlight=False, soft_wrap=False)
    if console.is_terminal and not console.is_dumb_terminal:
        console.width = min(console.width, WIDTH)
        return LiveScreen(console)
    return LineScreen(file)


class LiveScreen:
    """A picture redrawn several times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def waiting(self, text: str) -> None:
        self._draw(Spinner("dots", Text(text)), transient=True)

    def show(self, view: View) -> None:
        self._draw(picture(view, narrow=self._console.width < _LEAST_WIDTH), transient=False)

    def close(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def say(self, text: str) -> None:
        self.close()
        self._console.print(Text(text))

    def end(self, title: str, lines: Sequence[str], *, is_good: bool) -> None:
        self.close()
        colour = "green" if is_good else "red"
        body = Text("\n").join([Text(lines[0], style=f"bold {colour}"), *(Text(line) for line in lines[1:])])
        self._console.print(Panel(body, title=title, title_align="left", border_style=colour, box=_BOX))

    def _draw(self, what: RenderableType, *, transient: bool) -> None:
        if self._live is not None and self._live.transient != transient:
            self.close()
        if self._live is None:
            self._live = Live(
                what, console=self._console, refresh_per_second=FRAMES_PER_SECOND, transient=transient,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._live.start()
        self._live.update(what)


class LineScreen:
    """One line per second, and one for each notable moment."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._said = 0
        self._page = ""
        self._next_s = 0.0

    def waiting(self, text: str) -> None:
        self.say(text)

    def show(self, view: View) -> None:
        if view.page != self._page:
            self._page = view.page
            self.say(_invitation(view.page))
        for moment in view.moments[self._said :]:
            self.say(f"{_clock(moment.at_ms)}  *** {moment.text}")
        self._said = len(view.moments)
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + LINE_INTERVAL_S
            self.say(line(view))

    def close(self) -> None:
        pass

    def say(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()

    def end(self, title: str, lines: Sequence[str], *, is_good: bool) -> None:
        del is_good
        self.say("\n".join([f"--- {title} ---", *lines]))


def line(view: View) -> str:
    """The view as one line of text."""
    parts = [
        f"{_clock(view.elapsed_ms)}  {view.status.value}",
        f"{view.rows:,} of {view.total_rows:,} clicks ({view.rows_per_second:,.0f} a second)",
        f"{view.committed_rows:,} committed",
    ]
    done = next((it for it in view.checkpoints if it.status is CheckpointStatus.COMPLETED), None)
    if done is not None:
        parts.append(f"checkpoint {done.id} took {done.duration_ms} ms, {size_text(done.size_bytes or 0)}")
    if view.top:
        parts.append("top: " + " ".join(f"{user} {count:,}" for user, count in view.top[:3]))
    return " | ".join(parts)


def picture(view: View, *, narrow: bool = False) -> RenderableType:
    """The view as a picture of 20 lines, one more with the page's address; panels below each other if `narrow`."""
    figures = _panel("Clicks", _figures(view), _FIGURE_LINES)
    results = _panel(f"Results in {view.committed_files} committed files", _results(view), _FIGURE_LINES)
    checkpoints = _panel(f"{view.completed} checkpoints", _checkpoints(view.checkpoints), _EVENT_LINES)
    moments = _panel("What happens", _Tail(_moments(view.moments), _EVENT_LINES), _EVENT_LINES)
    if narrow:
        return Group(_header(view), figures, results, checkpoints, moments)
    grid = Table.grid(expand=True)
    grid.add_column(width=_LEFT_WIDTH)
    grid.add_column(ratio=1)
    grid.add_row(figures, results)
    grid.add_row(checkpoints, moments)
    return Group(_header(view), grid)


def _panel(title: str, body: RenderableType, lines: int) -> Panel:
    heading = Text(title, style="bold")
    return Panel(body, title=heading, title_align="left", border_style="cyan", box=_BOX, height=lines + 2)


def _header(view: View) -> RenderableType:
    story = Text.assemble(("Snapline", "bold cyan"), "  clicks are counted per user, exactly once")
    status = Text.assemble(
        (view.status.value, _STATUS_STYLES.get(view.status, "bold yellow")), f"  {view.elapsed_ms / 1000:.0f} s"
    )
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(ratio=1, no_wrap=True)
    grid.add_column(justify="right", min_width=status.cell_len, no_wrap=True)
    grid.add_row(story, status)
    return Group(grid, Text(_invitation(view.page), style="dim", overflow="fold")) if view.page else grid


def _figures(view: View) -> RenderableType:
    grid = Table.grid(expand=True, padding=(0, 1))
    grid.add_column(style="dim", min_width=9, no_wrap=True)
    grid.add_column(justify="right", ratio=1, no_wrap=True)
    grid.add_row("so far", Text(f"{view.rows:,}", style="bold cyan"))
    grid.add_row("of", f"{view.total_rows:,}")
    bar = ProgressBar(total=max(view.total_rows, 1), completed=view.rows, complete_style="cyan", finished_style="green")
    grid.add_row("", bar)
    grid.add_row("a second", f"{view.rows_per_second:,.0f}")
    grid.add_row("committed", f"{view.committed_rows:,}")
    return grid


def _results(view: View) -> RenderableType:
    if not view.top:
        return Text("none yet: rows appear with the checkpoint that holds them", style="dim")
    most = view.top[0][1]
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(width=10, no_wrap=True)
    table.add_column(justify="right", width=10, no_wrap=True)
    table.add_column(ratio=1)
    for user, count in view.top:
        bar = ProgressBar(total=most, completed=count, complete_style="magenta", finished_style="magenta")
        table.add_row(user, f"{count:,}", bar)
    return table


def _checkpoints(lines: Sequence[CheckpointLine]) -> RenderableType:
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    table.add_column("id")
    table.add_column("took", justify="right")
    table.add_column("size", justify="right")
    table.add_column("")
    for it in lines:
        if it.status is CheckpointStatus.COMPLETED:
            mark = Text("completed", style="green")
        else:
            failed = it.status is CheckpointStatus.FAILED
            mark = Text("failed" if failed else "under way", style="red" if failed else "yellow")
        took = "" if it.duration_ms is None else f"{it.duration_ms} ms"
        table.add_row(str(it.id), took, "" if it.size_bytes is None else size_text(it.size_bytes), mark)
    return table


def _moments(moments: Sequence[Moment]) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, style="dim")
    table.add_column()
    for moment in moments:
        table.add_row(_clock(moment.at_ms), Text(moment.text, style=_MOODS[moment.mood]))
    return table


class _Tail:
    """The last lines of a renderable."""

    def __init__(self, what: RenderableType, lines: int) -> None:
        self._what = what
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._what, options.update(height=None), pad=False)[-self._lines :]
        for segments in lines:
            yield from segments
            yield Segment.line()


def _invitation(page: str) -> str:
    return f"watch it at {page}"


def _clock(elapsed_ms: int) -> str:
    return f"{elapsed_ms / 1000:5.1f} s"

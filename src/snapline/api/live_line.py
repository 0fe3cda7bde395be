"""The progress of a job on standard error: one line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Protocol, TextIO

from snapline.api.job_handle import JobHandle
from snapline.protocol.statistics.progress import RateMeter
from snapline.text import duration_text
from snapline.types import JobStatus

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

POLL_S = 0.25
RATE_WINDOW_MS = 3000
LINE_INTERVAL_S = 10.0
"""Time between lines where there is no terminal. A change of the status is shown at once."""

END_TIMEOUT_S = 5.0

_always = threading.Event()
_has_started = threading.Event()


def show_always() -> None:
    """From now on every job that this process starts shows its progress. Called by the command `snapline run`."""
    _has_started.clear()
    _always.set()


def has_started() -> bool:
    """Whether this process has started a job since `show_always`."""
    return _has_started.is_set()


def show_progress(handle: JobHandle, *, wanted: bool) -> LiveLine | None:
    """Show the progress of a job until it ends, if `wanted` here or for all jobs."""
    _has_started.set()
    if not wanted and not _always.is_set():
        return None
    line = LiveLine(handle)
    line.start()
    return line


@contextmanager
def showing_progress(handle: JobHandle, *, wanted: bool) -> Iterator[None]:
    """The same within a block."""
    line = show_progress(handle, wanted=wanted)
    try:
        yield
    finally:
        if line is not None:
            line.close()


class LiveLine:
    """Follows one job on a thread of its own until the job ends, or `close`."""

    def __init__(self, handle: JobHandle, file: TextIO | None = None) -> None:
        self._handle = handle
        self._display = _open_display(sys.stderr if file is None else file)
        self._meter = RateMeter(RATE_WINDOW_MS)
        self._began_s = time.monotonic()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"progress-{handle.id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Show the last line and stop."""
        self._is_closed.set()
        self._thread.join(END_TIMEOUT_S)

    def _follow(self) -> None:
        try:
            while True:
                is_last = self._is_closed.wait(POLL_S)
                status = self._handle.status()
                if status.is_globally_terminal or status is JobStatus.SUSPENDED:
                    break
                self._display.show(status, self._line())
                if is_last:
                    return
            elapsed = duration_text((time.monotonic() - self._began_s) * 1000)
            completed = self._handle.checkpoints().counts.completed
            self._display.show(status, f"{self._handle.name}: {status.value} after {elapsed}, {completed} checkpoints")
        finally:
            self._display.close()

    def _line(self) -> str:
        progress, now_s = self._handle.progress(), time.time()
        self._meter.add(round(time.monotonic() * 1000), progress.rows, progress.attempt)
        attempt = f" (attempt {progress.attempt})" if progress.attempt > 1 else ""
        return f"{self._handle.name}{attempt}: {progress.line(round(now_s * 1000), self._meter.rows_per_second)}"


class _Display(Protocol):
    def show(self, status: JobStatus, line: str) -> None: ...

    def close(self) -> None: ...


def _open_display(file: TextIO) -> _Display:
    # Imported here, because few programs need it.
    from rich.console import Console

    console = Console(file=file, highlight=False)
    return _TerminalLine(console) if console.is_terminal and not console.is_dumb_terminal else _Lines(file)


class _TerminalLine:
    """A line of the terminal that is replaced. Lines of several jobs are below each other."""

    _guard: ClassVar = threading.Lock()
    _live: ClassVar[Live | None] = None
    _open: ClassVar[dict[_TerminalLine, str]] = {}
    _closed: ClassVar[list[str]] = []

    def __init__(self, console: Console) -> None:
        self._console = console

    def show(self, status: JobStatus, line: str) -> None:
        del status
        with self._guard:
            self._open[self] = line
            self._draw()

    def close(self) -> None:
        kind = _TerminalLine
        with self._guard:
            if self in self._open:
                self._closed.append(self._open.pop(self))
                self._draw()
            if not self._open and kind._live is not None:
                kind._live.stop()
                kind._live = None
                self._closed.clear()

    def _draw(self) -> None:
        from rich.live import Live
        from rich.text import Text

        kind = _TerminalLine
        if kind._live is None:
            # What the program prints to the terminal appears above the line; what goes to a file must not come here.
            kind._live = Live(
                console=self._console, auto_refresh=False, redirect_stdout=sys.stdout.isatty(), redirect_stderr=True
            )
            kind._live.start()
        lines = "\n".join([*self._closed, *self._open.values()])
        kind._live.update(Text(lines, no_wrap=True, overflow="ellipsis"), refresh=True)


class _Lines:
    """Lines, where there is no terminal."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._status: JobStatus | None = None
        self._next_s = 0.0

    def show(self, status: JobStatus, line: str) -> None:
        now_s = time.monotonic()
        if status is self._status and now_s < self._next_s:
            return
        self._status, self._next_s = status, now_s + LINE_INTERVAL_S
        self._file.write(f"{line}\n")
        self._file.flush()

    def close(self) -> None:
        pass

"""Runs the demo from start to proof."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from snapline.api.job_handle import JobFailedError
from snapline.config import Duration, duration_ms
from snapline.demo.clicks import clicks_job
from snapline.demo.results import Results
from snapline.demo.screen import Screen, open_screen
from snapline.demo.story import Story, View
from snapline.devtools.kit import processes
from snapline.devtools.kit.exactly_once import prove
from snapline.errors import ConfigurationError, SnaplineError
from snapline.runtime.master.master_handle import MasterHandle
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.text import size_text
from snapline.types import JobStatus

DEFAULT_DURATION = "40s"
DEFAULT_ROWS_PER_SECOND = 20_000
DEFAULT_PARALLELISM = 2
MAX_PARALLELISM = 64
MAX_ROWS = 1_000_000_000

POLL_S = 0.1
EXTRA_TIME_S = 120.0
"""How much longer than planned the job may take."""

CANCEL_TIMEOUT = "5s"
STOP_TIMEOUT_S = 6.0
PROCESS_END_S = 2.0

_FIRST_KILL_AT, _SECOND_KILL_AT = 0.25, 0.6  # of the clicks
_OPERATORS = ("the operator process of a slot", "its counts in memory are gone")
_WORKER = ("a Python worker of Spark", "the slot is gone with everything in it")


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The demo's options. Without `keep` all files are in a temporary directory, removed at the end."""

    duration: Duration = DEFAULT_DURATION
    rows_per_second: int = DEFAULT_ROWS_PER_SECOND
    parallelism: int = DEFAULT_PARALLELISM
    kill: bool = True
    keep: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.parallelism <= MAX_PARALLELISM:
            raise ConfigurationError(f"--parallelism {self.parallelism}: use 1 to {MAX_PARALLELISM}")
        if not 1 <= self.rows <= MAX_ROWS:
            raise ConfigurationError(
                f"--duration {self.duration} with --rows-per-second {self.rows_per_second} makes {self.rows:,} clicks; "
                f"use 1 to {MAX_ROWS:,}"
            )

    @property
    def duration_s(self) -> float:
        return duration_ms(self.duration, setting="--duration") / 1000

    @property
    def rows(self) -> int:
        return round(self.duration_s * self.rows_per_second)


class Interrupted(Exception):  # noqa: N818  # not an error
    """A signal asked the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def run_demo(options: DemoOptions) -> int:
    """Run the demo on standard output. Returns 0 if the proof holds, 1 if not, 128 plus the signal if interrupted.

    Never leaves a process behind; keeps the temporary directory only if something went wrong.
    """
    if options.kill and not processes.can_see():
        raise ConfigurationError("the demo finds the processes it kills in /proc, which is missing here; use --no-kill")
    directory = _directory(options.keep)
    is_temporary = options.keep is None
    try:
        with _signals() as was_interrupted, _logging(directory / "logs" / "driver.log"):
            screen = open_screen(sys.stdout)
            demo = _Demo(options, directory, screen, was_interrupted)
            try:
                is_proven = demo.run()
            except Interrupted as interrupted:
                screen.say("Interrupted: the job and Spark have ended.")
                return 128 + interrupted.number
            finally:
                screen.close()
            is_temporary = is_temporary and is_proven
            return 0 if is_proven else 1
    finally:
        if is_temporary:
            shutil.rmtree(directory, ignore_errors=True)


class _Demo:
    def __init__(
        self, options: DemoOptions, directory: Path, screen: Screen, was_interrupted: Callable[[], int | None]
    ) -> None:
        self._options = options
        self._screen = screen
        self._was_interrupted = was_interrupted
        self._directory = directory
        self._checkpoints = directory / "checkpoints"
        self._output = directory / "output"
        self._results = Results(self._output)
        self._story = Story(options.rows, wall_clock_ms())
        self._kills_left = [(_FIRST_KILL_AT, False), (_SECOND_KILL_AT, True)] if options.kill else []
        self._handle: MasterHandle | None = None
        self._checkpoints_at_recovery = 0

    def run(self) -> bool:
        """Returns whether the proof holds."""
        spark = _spark(max(os.cpu_count() or 1, self._options.parallelism, 2), self._directory)
        try:
            session = self._started(spark)
            handle = self._start_job(session)
            status = self._watch(handle)
            return self._end(handle, status)
        finally:
            self._screen.close()
            self._stop(spark)

    def _started(self, spark: Any) -> Any:
        """Returns the session, started on its own thread so that an interrupt need not wait for it."""
        self._screen.waiting(f"Starting Spark ({spark.master}) on this machine; this takes a few seconds …")
        with ThreadPoolExecutor(1, "demo-spark") as pool:
            session = pool.submit(spark.start)
            while not wait([session], POLL_S).done:
                if self._was_interrupted() is not None:
                    # The start cannot be cancelled, but it ends with its processes.
                    processes.end(processes.descendants(os.getpid()), 0)
        self._check_interrupt()
        return session.result()

    def _start_job(self, session: Any) -> MasterHandle:
        self._check_interrupt()
        options = self._options
        job = clicks_job(
            self._checkpoints,
            self._output,
            rows=options.rows,
            rows_per_second=options.rows_per_second,
            parallelism=options.parallelism,
        )
        self._story.say(wall_clock_ms(), f"the job starts in {options.parallelism} slots, each a Spark task")
        handle = job.start(session)
        assert isinstance(handle, MasterHandle)
        self._handle = handle
        self._story.page = handle.url
        return handle

    def _watch(self, handle: MasterHandle) -> JobStatus:
        """Show the job until it ends, and kill processes when due."""
        deadline_s = time.monotonic() + self._options.duration_s * 1.5 + EXTRA_TIME_S
        while True:
            status = handle.status()
            view = self._look(handle, status)
            self._screen.show(view)
            if status.is_globally_terminal or status is JobStatus.SUSPENDED:
                return status
            self._check_interrupt()
            if time.monotonic() > deadline_s:
                raise SnaplineError(
                    f"the job is {status.value} and has not ended in time; last failure: {handle.cause or 'none'}"
                )
            self._kill_if_due(view)
            time.sleep(POLL_S)

    def _look(self, handle: MasterHandle, status: JobStatus) -> View:
        self._results.refresh()
        metrics = handle.metrics()
        self._story.follow(handle.events())
        return self._story.view(wall_clock_ms(), status, handle.checkpoints(), metrics, self._results)

    def _kill_if_due(self, view: View) -> None:
        if not self._kills_left or view.status is not JobStatus.RUNNING or self._story.is_recovering:
            # At least two checkpoints between kills.
            self._checkpoints_at_recovery = view.completed
            return
        part, worker = self._kills_left[0]
        if view.rows >= part * view.total_rows and view.completed >= self._checkpoints_at_recovery + 2:
            del self._kills_left[0]
            self._kill(worker=worker)

    def _kill(self, *, worker: bool) -> None:
        """Kill the operator process of a slot, or its parent, the worker."""
        found = processes.operator_processes(os.getpid())
        if not found:
            return
        pid = found[-1].parent if worker else found[0].pid
        victim, consequence = _WORKER if worker else _OPERATORS
        if processes.send(pid):
            self._story.killed(wall_clock_ms(), pid, victim, consequence)

    def _check_interrupt(self) -> None:
        number = self._was_interrupted()
        if number is not None:
            raise Interrupted(number)

    def _end(self, handle: MasterHandle, status: JobStatus) -> bool:
        """Show the result and the proof."""
        try:
            status = handle.wait("10s")
        except JobFailedError as error:
            self._screen.end("The job has failed", [" ".join(str(error).split()), self._where()], is_good=False)
            return False
        # Rows of the last checkpoint may have been committed since the last look.
        self._screen.show(self._look(handle, status))
        seconds = (wall_clock_ms() - self._story.started_ms) / 1000
        proof = prove(self._output, self._options.rows)
        statistics = handle.checkpoints()
        is_good = proof.is_exactly_once and status is JobStatus.FINISHED
        lines = [
            "Not one event was lost or counted twice."
            if is_good
            else f"The proof does not hold: {'; '.join(proof.problems[:5]) or f'the job is {status.value}'}",
            f"{self._options.rows:,} clicks came in, {proof.rows:,} rows are in the output, every click exactly once."
            if is_good
            else f"{self._options.rows:,} clicks came in, {proof.rows:,} rows are in the output.",
        ]
        if is_good:
            lines.append(
                "The clicks of each user are numbered 1, 2, 3 and so on without a gap: the state is exact too."
            )
        took = statistics.summary.end_to_end_duration_ms
        lines += [
            "",
            f"{seconds:.1f} s in all, {statistics.counts.completed} checkpoints (median {took.p50:.0f} ms, at most "
            f"{size_text(statistics.summary.checkpointed_bytes.max)}), {len(self._story.restarts)} restarts",
        ]
        for restart in self._story.restarts:
            start = "the beginning" if restart.checkpoint_id is None else f"checkpoint {restart.checkpoint_id}"
            what = f"kill -9 of {restart.victim}" if restart.victim else "a failure"
            after = "not again" if restart.recovery_s is None else f"again after {restart.recovery_s:.1f} s"
            lines.append(f"  {what}: running {after}, from {start}")
        for _ in self._kills_left:
            lines.append("  one kill less than planned: the clicks ended first; use a longer --duration")
        self._screen.end("Proof", [*lines, "", self._where(is_good=is_good)], is_good=is_good)
        return is_good

    def _where(self, *, is_good: bool = False) -> str:
        if self._options.keep is None and is_good:
            return "The output, checkpoints and logs were temporary; --keep DIR keeps them."
        return (
            f"Output: {self._output}\nCheckpoints: {self._checkpoints} (a job that finishes deletes its own)\n"
            f"Logs: {self._directory / 'logs'}"
        )

    def _stop(self, spark: Any) -> None:
        """End the job, Spark, and every process that belongs to them."""
        handle = self._handle
        if handle is not None and not handle.status().is_globally_terminal:
            with contextlib.suppress(TimeoutError):  # its processes are ended below
                handle.cancel(CANCEL_TIMEOUT)
        ours = processes.descendants(os.getpid())
        thread = threading.Thread(target=spark.stop, name="demo-stop", daemon=True)
        thread.start()
        thread.join(STOP_TIMEOUT_S)
        processes.end(ours, PROCESS_END_S if not thread.is_alive() else 0)
        shutil.rmtree(self._directory / "spark", ignore_errors=True)


def _spark(cores: int, directory: Path) -> Any:
    try:
        from snapline.spark.embedded_spark import EmbeddedSpark
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise ConfigurationError(
            "the demo runs on Spark, and pyspark is not installed: pip install 'snapline[spark]'"
        ) from error
    return EmbeddedSpark(cores, directory / "spark", directory / "logs" / "spark.log")


def _directory(keep: str | None) -> Path:
    """Returns an empty directory."""
    if keep is None:
        directory = Path(tempfile.mkdtemp(prefix="snapline-demo-"))
    else:
        directory = Path(keep).absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            is_empty = next(directory.iterdir(), None) is None
        except OSError as error:
            raise ConfigurationError(f"--keep {keep}: cannot be used as a directory: {error}") from error
        if not is_empty:
            raise ConfigurationError(f"--keep {keep}: the directory is not empty; name a new one")
    (directory / "logs").mkdir()
    return directory


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[], int | None]]:
    """Yields a function that returns the first termination signal, or None. Meanwhile signals have no other effect."""
    came: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        del frame
        came.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # nohup and shells ignore some on purpose.
    before = {
        number: signal.signal(number, remember) for number in numbers if signal.getsignal(number) != signal.SIG_IGN
    }
    try:
        yield lambda: came[0] if came else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _logging(path: Path) -> Iterator[None]:
    """Log to a file: nothing may come between the lines on the screen."""
    root = logging.getLogger()
    handler = logging.FileHandler(path)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    before, level = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        handler.close()

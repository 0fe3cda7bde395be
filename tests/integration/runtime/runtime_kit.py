"""Operators, sources and settings for the tests of the runtime; operator processes import it too."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from tests.program_kit import programs

from snapline.api.job import Job
from snapline.config import Checkpoints, Execution, ExponentialDelay
from snapline.connectors.files.file_sink import Files
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith, SinkContext, SinkWriter
from snapline.contracts.source import Position, ReaderContext, Source, SourceReader, Split, Wait
from snapline.devtools.kit.processes import operator_processes
from snapline.runtime.master.master_handle import MasterHandle
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

RESTART = ExponentialDelay(initial_backoff="10ms", max_backoff="50ms")
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {"unaligned": True},
    "timeout": {"unaligned": True, "aligned_timeout": "20ms"},
}
AT_LEAST_ONCE: dict[str, Any] = {"mode": "AT_LEAST_ONCE"}
HEARTBEATS = {"heartbeat_interval": "100ms", "heartbeat_timeout": "1s"}
DEADLINE_S = 120.0
Start: TypeAlias = "Callable[[Job, ProcessCluster | ThreadCluster], MasterHandle]"
"""Starts a job that is cancelled at the end of the test if it has not ended by then."""
ROWS = pa.schema([("id", pa.int64()), ("user", pa.string())])

is_full_matrix = os.environ.get("SNAPLINE_FULL_MATRIX") == "1"


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until something is true; fails with `what` if that does not come."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.005)


# What a process has.


def child_pids(pid: int | None = None) -> set[int]:
    """The processes this one, or another, has started and that have not been waited for."""
    found: set[int] = set()
    for path in Path(f"/proc/{'self' if pid is None else pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.update(map(int, path.read_text().split()))
    return found


def operator_pids() -> set[int]:
    """The operator processes of this process's clusters, which may be forks of one interpreter."""
    launched = {process.pid for process in operator_processes(os.getpid()) if process.parent == os.getpid()}
    return launched | child_pids(programs().pid)


def listening_ports(pid: int | None = None) -> set[int]:
    """The TCP ports a process listens on."""
    owner = "self" if pid is None else str(pid)
    sockets: set[str] = set()
    for descriptor in Path(f"/proc/{owner}/fd").iterdir():
        with contextlib.suppress(OSError):
            sockets.add(os.readlink(descriptor))
    ports: set[int] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{owner}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def ports_of_child(pid: int) -> set[int]:
    """The same of a process that may have ended."""
    with contextlib.suppress(OSError):
        return listening_ports(pid)
    return set()


def open_files(servers: Collection[int] = ()) -> set[str]:
    """What this process has open, but for connections to these ports.

    Clients of servers for all tests come and go with their connections, whatever a test does.
    """
    found: set[str] = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add(os.readlink(descriptor))
    # Threads of Kafka clients that other tests have left open and close pipes as they please.
    ignored = ("/proc/", "pipe:") if "confluent_kafka" in sys.modules else ("/proc/",)
    return {name for name in found if not name.startswith(ignored)} - _connections_to(servers)


def wait_until_closed(servers: Collection[int], before: set[str], timeout_s: float = DEADLINE_S) -> None:
    """Wait until nothing is open that was not before; fails with what still is."""
    deadline_s = time.monotonic() + timeout_s
    while left := open_files(servers) - before:
        assert time.monotonic() < deadline_s, f"still open after {timeout_s:g} s: {sorted(left)}, {_tcp_lines(left)}"
        time.sleep(0.005)


def _tcp_lines(names: set[str]) -> list[str]:
    lines = [line for table in ("tcp", "tcp6") for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]]
    return [" ".join(line.split()[1:4]) for line in lines if f"socket:[{line.split()[9]}]" in names]


def _connections_to(ports: Collection[int]) -> set[str]:
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[2].rsplit(":", 1)[1], 16) in ports:
                found.add(f"socket:[{fields[9]}]")
    return found


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Settings.


def settings(mode: str = "aligned", interval: str | None = "100ms", **more: Any) -> Callable[[str], Checkpoints]:
    """Checkpoints in one of the modes, for `numbering_job`."""
    options: dict[str, Any] = {"interval": interval, "history": 1000, **MODES.get(mode, AT_LEAST_ONCE), **more}
    return lambda storage: Checkpoints(**{"storage": storage, **options})


def small(**more: Any) -> Execution:
    """Little room in the channels, so that back-pressure comes at once."""
    options: dict[str, Any] = {
        "channel_memory": "4KB",
        "batch_size": "4KB",
        "metrics_interval": "50ms",
        "latency_interval": "50ms",
        "cancel_timeout": "1s",
    }
    return Execution(**{**options, **more})


# What to do to a job that runs.


def runs(handle: MasterHandle) -> bool:
    return handle.status() is JobStatus.RUNNING


def has_ended(handle: MasterHandle) -> bool:
    return handle.status().is_globally_terminal or handle.status() is JobStatus.SUSPENDED


def completed(handle: MasterHandle) -> int:
    return handle.checkpoints().counts.completed


def wait_for_checkpoints(handle: MasterHandle, more: int = 2) -> None:
    """Wait until the job runs and has so many more checkpoints than now; or has ended."""
    at_least = completed(handle) + more
    wait_until(
        lambda: has_ended(handle) or (runs(handle) and completed(handle) >= at_least),
        f"{more} more checkpoints ({handle.events()[-5:]})",
    )


def wait_for_restart(handle: MasterHandle, attempt: int) -> None:
    """Wait until an attempt after this one runs, or the job has ended."""
    wait_until(
        lambda: has_ended(handle) or (handle.attempt > attempt and runs(handle)),
        f"an attempt after {attempt} ({handle.events()[-5:]})",
    )


class Harm:
    """Ways to harm a job with real operator processes; each takes part in choosing its victim by chance."""

    def __init__(self, cluster: ProcessCluster, seed: int = 1) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)

    def kill(self, handle: MasterHandle) -> None:
        """End an operator process as the machine would."""
        del handle
        with contextlib.suppress(ProcessLookupError, IndexError):
            os.kill(self._random.choice(self._cluster.worker_pids()), signal.SIGKILL)

    def lose_slot(self, handle: MasterHandle) -> None:
        """End a slot with all that runs in it."""
        del handle
        with contextlib.suppress(AssertionError):
            self._cluster.lose_slot(self._random.randrange(2))

    def freeze(self, handle: MasterHandle) -> None:
        """Stop an operator process until that is noticed, then let it go on."""
        attempt = handle.attempt
        with contextlib.suppress(ProcessLookupError, IndexError):
            pid = self._random.choice(self._cluster.worker_pids())
            os.kill(pid, signal.SIGSTOP)
            wait_until(
                lambda: has_ended(handle) or handle.attempt > attempt or not runs(handle),
                "the silence is noticed",
            )
            os.kill(pid, signal.SIGCONT)

    def any(self, handle: MasterHandle) -> None:
        self._random.choice([self.kill, self.kill, self.lose_slot, self.freeze])(handle)


# Operators.


class Pass(Operator):
    """Passes everything on."""

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self.context.emit(batch)


class Hang(Operator):
    """Does not come back for a minute once a file says that it has been reached."""

    def __init__(self, marker: str) -> None:
        self._marker = Path(marker)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del batch, input_index
        self._marker.touch()
        time.sleep(60)


class SlowSnapshot(Operator):
    """Takes so long for the snapshot of each checkpoint up to the last of them, in one of its subtasks."""

    def __init__(self, seconds: float, until_checkpoint: int) -> None:
        self._seconds = seconds
        self._until = until_checkpoint

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self.context.emit(batch)

    def snapshot(self, checkpoint_id: int) -> None:
        if checkpoint_id <= self._until and self.context.subtask == 0:
            time.sleep(self._seconds)


class BadSnapshot(Operator):
    """Fails in its snapshot, every time, or so often in all."""

    def __init__(self, marker: str, times: int | None = None) -> None:
        self._marker = Path(marker)
        self._times = times

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self.context.emit(batch)

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        if self.context.subtask == 0:
            with self._marker.open("a") as file:
                file.write("x")
            if self._times is None or len(self._marker.read_text()) <= self._times:
                raise ValueError("the snapshot fails on purpose")


class AlwaysFails(Operator):
    """Fails at the first batch, each time with a number one higher."""

    def __init__(self, marker: str) -> None:
        self._marker = Path(marker)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del batch, input_index
        with self._marker.open("a") as file:
            file.write("x")
        _deep_in_user_code(len(self._marker.read_text()))


def _deep_in_user_code(time: int) -> None:
    raise ValueError(f"bad row, time {time}")


class Tagged(Operator):
    """Adds which subtask has seen the row."""

    schema = pa.schema([*ROWS, ("subtask", pa.int64())])

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        columns = [batch.column("id"), batch.column("user"), pa.array([self.context.subtask] * batch.num_rows)]
        self.context.emit(pa.RecordBatch.from_arrays(columns, schema=self.schema))


class WatermarkLog(Operator):
    """Writes the watermarks it sees to a file for each subtask, and passes rows on."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        self._directory.mkdir(exist_ok=True)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        del input_index
        self.context.emit(batch)

    def watermark(self, timestamp_ms: int) -> None:
        with (self._directory / str(self.context.subtask)).open("a") as file:
            file.write(f"{timestamp_ms}\n")


# Sinks.


class Unwilling(Files):
    """Files whose commits ask for a retry or raise, so often in all; a file for each subtask counts them."""

    def __init__(
        self, directory: Path, counts: Path, *, retries: int = 0, errors: int = 0, after: bool = False
    ) -> None:
        super().__init__(directory)
        self._counts = counts
        self._retries = retries
        self._errors = errors
        self._after = after

    def writer(self, context: SinkContext) -> SinkWriter:
        return _UnwillingWriter(super().writer(context), self._counts / str(context.subtask), self)


class _UnwillingWriter(SinkWriter):
    def __init__(self, writer: SinkWriter, count: Path, sink: Unwilling) -> None:
        self._writer = writer
        self._count = count
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write(batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        return self._writer.prepare(checkpoint_id)

    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        with self._count.open("a") as file:
            file.write("x")
        number, sink = len(self._count.read_text()), self._sink
        if number <= sink._errors + sink._retries and sink._after:
            self._writer.commit(committable, permit)  # it was done, but nobody hears of it
        if number <= sink._errors:
            raise OSError("the outside is away")
        if number <= sink._errors + sink._retries:
            return CommitResult.RETRY_LATER
        return self._writer.commit(committable, permit)

    def abort_newer(self, checkpoint_id: int) -> None:
        self._writer.abort_newer(checkpoint_id)

    def close(self) -> None:
        self._writer.close()


# Sources.


class Uneven(Source):
    """Rows of `numbers[i]` ids in split i, `gap` seconds after each batch; ids count through all splits.

    Unlike those of `Rate` its splits differ in length, so that some subtasks end long before others. An empty list of
    numbers is a source without splits. After its rows a split that is one of `silent` waits as many seconds as it says.
    """

    def __init__(
        self,
        numbers: Sequence[int],
        *,
        batch_rows: int = 100,
        gap: float = 0.01,
        silent: dict[int, float] | None = None,
    ) -> None:
        self.numbers = list(numbers)
        self._batch_rows = batch_rows
        self._gap = gap
        self._silent = silent or {}

    @property
    def schema(self) -> pa.Schema:
        return ROWS

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        del parallelism
        firsts = [sum(self.numbers[:index]) for index in range(len(self.numbers))]
        return [
            {"first": first, "end": first + number, "silent": self._silent.get(index, 0)}
            for index, (first, number) in enumerate(zip(firsts, self.numbers, strict=True))
        ]

    def reader(self, context: ReaderContext) -> SourceReader:
        del context
        return _UnevenReader(self._batch_rows, self._gap)


class _UnevenReader(SourceReader):
    def __init__(self, batch_rows: int, gap_s: float) -> None:
        self._batch_rows = batch_rows
        self._gap_s = gap_s
        self._splits: list[list[Any]] = []
        self._next_s = 0.0
        self._silent_until_s: float | None = None

    def add_split(self, split: Split, position: Position) -> None:
        self._splits.append([split, split["first"] if position is None else position])

    def read(self) -> pa.RecordBatch | Wait | None:
        now_s = time.monotonic()
        while self._splits:
            split, position = self._splits[0]
            if position >= split["end"]:
                if split["silent"] and self._silent_until_s is None:
                    self._silent_until_s = now_s + split["silent"]
                if self._silent_until_s is not None and now_s < self._silent_until_s:
                    return Wait(self._silent_until_s - now_s)
                self._splits.pop(0)
                continue
            if now_s < self._next_s:
                return Wait(self._next_s - now_s)
            self._next_s = now_s + self._gap_s
            end = min(position + self._batch_rows, split["end"])
            self._splits[0][1] = end
            ids = range(position, end)
            return pa.RecordBatch.from_arrays(
                [pa.array(ids, pa.int64()), pa.array([f"user-{id % 10}" for id in ids])], schema=ROWS
            )
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        return [(split, position) for split, position in self._splits]

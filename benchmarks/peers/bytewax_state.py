"""A Python function with state in bytewax, run by an interpreter that has it: two workers, recovery every second.

`python -m benchmarks.peers.bytewax_state --events N` prints one JSON object. Workers are two processes unless
`--threads` is given, because threads share one interpreter lock; the faster way counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.checking import checksum, last_rows
from benchmarks.peers.workload import KEYS, PARALLELISM, key, value

BATCH = 1000
_EVENTS = "BYTEWAX_BENCHMARK_EVENTS"
_KEYS = "BYTEWAX_BENCHMARK_KEYS"
_DIRECTORY = "BYTEWAX_BENCHMARK_DIRECTORY"
_CHECK = "BYTEWAX_BENCHMARK_CHECK"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--workers", choices=("processes", "threads"), default="processes")
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bytewax-benchmark-"))
    try:
        print(json.dumps(run(options.events, options.keys, options.workers, options.check, directory)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(events: int, keys: int, workers: str, is_check: bool, directory: Path) -> dict[str, Any]:
    from importlib.metadata import version

    recovery = directory / "recovery"
    recovery.mkdir()
    subprocess.run([sys.executable, "-m", "bytewax.recovery", str(recovery), str(PARALLELISM)], check=True)
    environment = {
        **os.environ,
        _EVENTS: str(events),
        _KEYS: str(keys),
        _DIRECTORY: str(directory),
        _CHECK: "1" if is_check else "",
    }
    flow = f"{__spec__.name if __spec__ else __name__}:flow()"
    durable = ["-r", str(recovery), "-s", "1", "-b", "0"]
    if workers == "threads":
        command = [sys.executable, "-m", "bytewax.run", flow, "-w", str(PARALLELISM), *durable]
    else:
        command = [sys.executable, "-m", "bytewax.testing", flow, "-p", str(PARALLELISM), *durable]
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
    result: dict[str, Any] = {"events": events, "version": f"bytewax {version('bytewax')}"}
    if is_check:
        rows = [json.loads(line) for path in directory.glob("rows-*") for line in path.read_text().splitlines()]
        return {**result, "result": checksum(last_rows(rows))}
    times = [tuple(map(float, path.read_text().split())) for path in directory.glob("times-*")]
    seconds = max(end for _, end in times) - min(start for start, _ in times)
    return {
        **result,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "timed": "from the first row that a source gives to the last that a sink takes",
        "conditions": {"workers": f"{PARALLELISM} {workers}", "snapshot interval": "1 s", "source batch": BATCH},
    }


def totals(state: tuple[int, int] | None, number: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The measured function: the running count and sum of a key."""
    count, total = state or (0, 0)
    state = (count + 1, total + number)
    return state, state


def flow() -> Any:
    """Builds the dataflow; bytewax calls this in each of its processes."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition

    events, keys, directory = int(os.environ[_EVENTS]), int(os.environ[_KEYS]), Path(os.environ[_DIRECTORY])
    is_check = bool(os.environ[_CHECK])

    class Rows(StatefulSourcePartition[tuple[str, int], int]):  # type: ignore[misc]
        def __init__(self, position: int) -> None:
            self._next = position
            self._file = directory / f"times-source-{position % PARALLELISM}"

        def next_batch(self) -> list[tuple[str, int]]:
            start = self._next
            if start < PARALLELISM:
                self._file.write_text(f"{time.time()} 0")
            end = min(start + BATCH * PARALLELISM, events)
            if start >= end:
                raise StopIteration
            self._next = start + BATCH * PARALLELISM
            return [(str(key(n, keys)), value(n)) for n in range(start, end, PARALLELISM)]

        def snapshot(self) -> int:
            return self._next

    class Source(FixedPartitionedSource[tuple[str, int], int]):  # type: ignore[misc]
        def list_parts(self) -> list[str]:
            return [str(number) for number in range(PARALLELISM)]

        def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Rows:
            del step_id
            return Rows(int(for_part) if resume_state is None else resume_state)

    class Taken(StatelessSinkPartition[tuple[str, tuple[int, int]]]):  # type: ignore[misc]
        def __init__(self, worker: int) -> None:
            self._worker = worker
            self._ended_s = 0.0
            self._rows: list[tuple[str, int, int]] = []

        def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
            self._ended_s = time.time()
            if is_check:
                self._rows += [(name, count, total) for name, (count, total) in items]

        def close(self) -> None:
            if self._ended_s:
                (directory / f"times-sink-{self._worker}").write_text(f"{self._ended_s} {self._ended_s}")
            (directory / f"rows-{self._worker}").write_text("\n".join(map(json.dumps, self._rows)))

    class Sink(DynamicSink[tuple[str, tuple[int, int]]]):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Taken:
            del step_id, worker_count
            return Taken(worker_index)

    made = Dataflow("totals")
    rows: Iterator[Any] | Any = op.input("rows", made, Source())
    op.output("out", op.stateful_map("totals", rows, totals), Sink())
    return made


if __name__ == "__main__":
    main()

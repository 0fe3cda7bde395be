"""The functions in bytewax that it can run, by an interpreter that has it: two workers, recovery every second.

`python -m benchmarks.functions.bytewax_functions --function count|topk --events N` prints one JSON object. Functions
with timers are left out: bytewax can wake a key by the clock of the machine, not by event time.
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
from pathlib import Path
from typing import Any

from benchmarks.functions.payments import CARDS, TOP, check, columns
from benchmarks.peers.workload import PARALLELISM

BATCH = 1000
_OPTIONS = "BYTEWAX_FUNCTIONS_OPTIONS"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", choices=("count", "topk"), required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--cards", type=int, default=CARDS)
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="bytewax-functions-"))
    try:
        print(json.dumps(run({**vars(options), "directory": str(directory)}, directory)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def run(options: dict[str, Any], directory: Path) -> dict[str, Any]:
    from importlib.metadata import version

    recovery = directory / "recovery"
    recovery.mkdir()
    subprocess.run([sys.executable, "-m", "bytewax.recovery", str(recovery), str(PARALLELISM)], check=True)
    flow = f"{__spec__.name if __spec__ else __name__}:flow()"
    command = [sys.executable, "-m", "bytewax.testing", flow, "-p", str(PARALLELISM)]
    command += ["-r", str(recovery), "-s", "1", "-b", "0"]
    subprocess.run(command, env={**os.environ, _OPTIONS: json.dumps(options)}, check=True, stdout=sys.stderr)
    events = options["events"]
    result: dict[str, Any] = {"events": events, "version": f"bytewax {version('bytewax')}"}
    if options["check"]:
        rows = [json.loads(line) for path in directory.glob("rows-*") for line in path.read_text().splitlines()]
        return {**result, "result": check([tuple(row) for row in rows])}
    times = [float(path.read_text()) for path in directory.glob("time-*")]
    seconds = max(times) - min(times)
    return {
        **result,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "timed": "from the first row that the source gives to the last that a sink takes",
        "conditions": {"workers": f"{PARALLELISM} processes", "snapshot interval": "1 s", "source batch": BATCH},
    }


def count(state: tuple[int, int] | None, row: tuple[int, ...]) -> tuple[tuple[int, int], list[tuple[int, int, int]]]:
    number, total = state or (0, 0)
    state = (number + 1, total + row[3])
    return state, [(row[1], *state)]


def topk(state: list[int] | None, row: tuple[int, ...]) -> tuple[list[int], list[tuple[int, int, int]]]:
    best, amount = state or [], row[3]
    if len(best) >= TOP and amount <= best[-1]:
        return best, []
    best = sorted([*best, amount], reverse=True)[:TOP]
    return best, [(row[1], row[0], sum(best))]


def flow() -> Any:
    """Builds the dataflow; bytewax calls this in each of its processes."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition

    options = json.loads(os.environ[_OPTIONS])
    events, cards, directory = options["events"], options["cards"], Path(options["directory"])

    class Rows(StatefulSourcePartition[Any, int]):  # type: ignore[misc]
        def __init__(self, position: int) -> None:
            self._next = position

        def next_batch(self) -> list[Any]:
            start, end = self._next, min(self._next + BATCH, events)
            if start == 0:
                (directory / "time-first").write_text(str(time.time()))
            if start >= end:
                raise StopIteration
            self._next = end
            rows = (columns(n, cards) for n in range(start, end))
            return [(str(row[1]), row) for row in rows]

        def snapshot(self) -> int:
            return self._next

    class Source(FixedPartitionedSource[Any, int]):  # type: ignore[misc]
        # One source, so that the payments of a card keep their order.
        def list_parts(self) -> list[str]:
            return ["all"]

        def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Rows:
            del step_id, for_part
            return Rows(resume_state or 0)

    class Taken(StatelessSinkPartition[Any]):  # type: ignore[misc]
        def __init__(self, worker: int) -> None:
            self._worker = worker
            self._ended_s = 0.0
            self._rows: list[Any] = []

        def write_batch(self, items: list[Any]) -> None:
            self._ended_s = time.time()
            if options["check"]:
                self._rows += [row for _, row in items]

        def close(self) -> None:
            if self._ended_s:
                (directory / f"time-{self._worker}").write_text(str(self._ended_s))
            (directory / f"rows-{self._worker}").write_text("\n".join(map(json.dumps, self._rows)))

    class Sink(DynamicSink[Any]):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Taken:
            del step_id, worker_count
            return Taken(worker_index)

    made = Dataflow("functions")
    rows = op.input("rows", made, Source())
    function = {"count": count, "topk": topk}[options["function"]]
    op.output("out", op.stateful_flat_map("function", rows, function), Sink())
    return made


if __name__ == "__main__":
    main()

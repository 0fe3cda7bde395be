"""The job of the soak run, what its outputs must be, and the driver process that runs it.

Every row follows from its number, so all four outputs can be computed afterwards and compared row by row:
numbers of the rows of each user, windows, joined rows, and rows emitted by timers.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.soak.paced_source import Paced

import snapline as sl
from snapline.devtools.chaos.chaos_driver import DriverOrder, place, report_until_end
from snapline.devtools.kit.exactly_once import NUMBERED, FailOnDemand, Numbering, prove
from snapline.runtime.master.master_handle import MasterHandle

ROWS_PER_SECOND = 2000
CATCHING_UP = 1.5
"""How much faster a source may be after a recovery."""

SPLITS = 2
BATCH_ROWS = 200
STEP_ROWS = SPLITS * BATCH_ROWS
"""The number of rows is a multiple of this."""

USERS = 50
WINDOW_MS = 10_000
JOIN_DELAY_MS = 500
TIMER_DELAY_MS = 2000
TIMED_VALUE = 7
DISORDER_MS = 10_000
"""How far splits may be apart after they were given to other subtasks. What the join keeps grows with it."""

ROWS = pa.schema([("id", pa.int64()), ("user", pa.string()), ("value", pa.int64()), ("time", pa.int64())])
EVENS = pa.schema([("even", pa.int64()), ("even_time", pa.int64())])
TIMED = pa.schema([("user", pa.string()), ("at", pa.int64())])
_NAMES = pa.array([f"user-{number}" for number in range(USERS)])

Numbers = npt.NDArray[np.int64]


def columns(start: int, count: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Id, number of the user, value and time of these rows."""
    ids = np.arange(start, start + count, dtype=np.int64)
    mixed = ids * 2_654_435_761 % 4_294_967_291
    return ids, mixed % USERS, mixed // USERS % 100, ids * 1000 // ROWS_PER_SECOND


def make_rows(start: int, count: int) -> pa.RecordBatch:
    ids, users, values, times = columns(start, count)
    return pa.RecordBatch.from_arrays([pa.array(ids), _NAMES.take(pa.array(users)), values, times], schema=ROWS)


def make_evens(start: int, count: int) -> pa.RecordBatch:
    """Every second row again, a little later."""
    ids = np.arange(start, start + count, dtype=np.int64) * 2
    return pa.RecordBatch.from_arrays([ids, ids * 1000 // ROWS_PER_SECOND + JOIN_DELAY_MS], schema=EVENS)


class Timed(sl.ProcessFunction):
    """Sets a timer for every row, and emits when it fires."""

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        context.set_event_timer(row["time"] + TIMER_DELAY_MS)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "at": time_ms})


def limit_file(order: DriverOrder) -> Path:
    """Names the number of rows up to now. Not on the disk that fills up."""
    return Path(order.directory).parent / "limit"


def soak_job(order: DriverOrder) -> sl.Job:
    root = Path(order.directory)
    job = sl.Job(
        "soak",
        id="soak",
        parallelism=2,
        checkpoints=sl.Checkpoints(
            interval="500ms", timeout="20s", storage=str(root / "chk"), unaligned=True, aligned_timeout="200ms"
        ),
        execution=sl.Execution(heartbeat_interval="300ms", heartbeat_timeout="3s", cancel_timeout="2s"),
        restart=sl.ExponentialDelay(initial_backoff="50ms", max_backoff="1s"),
    )
    rows = job.source(
        Paced(
            make_rows,
            str(limit_file(order)),
            schema=ROWS,
            rows_per_second=CATCHING_UP * ROWS_PER_SECOND,
            splits=SPLITS,
            batch_rows=BATCH_ROWS,
        ),
        uid="rows",
        watermarks=sl.Watermarks("time", delay=f"{DISORDER_MS}ms"),
    )
    evens = job.source(
        Paced(
            make_evens,
            str(limit_file(order)),
            schema=EVENS,
            rows_per_second=CATCHING_UP * ROWS_PER_SECOND / 2,
            splits=SPLITS,
            batch_rows=BATCH_ROWS // 2,
            rows_each=2,
        ),
        uid="evens",
        watermarks=sl.Watermarks("even_time", delay=f"{DISORDER_MS}ms"),
    )
    rows = rows.rebalance().apply(FailOnDemand(str(order.fail_file)), uid="failing-on-demand", schema=ROWS)
    keyed = rows.key_by("user")
    keyed.apply(Numbering(), uid="numbering", schema=NUMBERED, has_state=True).sink(
        sl.sinks.Files(root / "numbered"), uid="numbered"
    )
    keyed.window(sl.Tumbling(f"{WINDOW_MS}ms")).aggregate(n=sl.count(), total=sl.sum("value"), uid="per-window").sink(
        sl.sinks.Files(root / "windows"), uid="windows"
    )
    rows.key_by("id").interval_join(evens.key_by("even"), lower="0s", upper="1s", uid="pairs").sink(
        sl.sinks.Files(root / "joined"), uid="joined"
    )
    (
        rows.filter(pc.field("value") == TIMED_VALUE)
        .key_by("user")
        .process(Timed(), schema=TIMED, uid="timed")
        .sink(sl.sinks.Files(root / "timed"), uid="timed-out")
    )
    return job


def problems(order: DriverOrder) -> list[str]:
    """Compares all outputs with what they must be after `order.rows` rows. Empty if none is lost or doubled."""
    root, (ids, users, values, times) = Path(order.directory), columns(0, order.rows)
    found = [f"numbered: {problem}" for problem in prove(root / "numbered", order.rows).problems]
    windows: dict[tuple[str, int], tuple[int, int]] = {}
    starts = times // WINDOW_MS * WINDOW_MS
    for start in np.unique(starts):
        inside = starts == start
        counts = np.bincount(users[inside], minlength=USERS)
        totals = np.bincount(users[inside], weights=values[inside], minlength=USERS)
        for user in np.flatnonzero(counts):
            windows[f"user-{user}", int(start)] = int(counts[user]), int(totals[user])
    table = sl.sinks.read_files(root / "windows")
    emitted = [
        ((user, _millis(start)), (n, total))
        for user, start, n, total in zip(
            *(table[name].to_pylist() for name in ("user", "window_start", "n", "total")), strict=True
        )
    ]
    found += _differences("windows", emitted, windows.items())
    joined = sl.sinks.read_files(root / "joined")["id"].to_pylist()
    found += _differences("joined", joined, ids[ids % 2 == 0].tolist())
    timed = sl.sinks.read_files(root / "timed")
    fired = list(zip(timed["user"].to_pylist(), timed["at"].to_pylist(), strict=True))
    is_timed = values == TIMED_VALUE
    due = {(f"user-{u}", int(t) + TIMER_DELAY_MS) for u, t in zip(users[is_timed], times[is_timed], strict=True)}
    return found + _differences("timed", fired, due)


def _differences(name: str, found: Any, wanted: Any) -> list[str]:
    found, wanted = list(found), set(wanted)
    distinct = set(found)
    parts = []
    if missing := wanted - distinct:
        parts.append(f"{name}: {len(missing)} rows are missing, such as {min(missing)}")
    if extra := distinct - wanted:
        parts.append(f"{name}: {len(extra)} rows should not be there, such as {min(extra)}")
    if len(found) != len(distinct):
        parts.append(f"{name}: {len(found) - len(distinct)} rows are there more than once")
    return parts


def _millis(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)


def main(text: str) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    order = DriverOrder(**json.loads(text))
    with place(order) as where:
        handle = soak_job(order).start(where)
        assert isinstance(handle, MasterHandle)
        status = report_until_end(handle)
    return 0 if status is sl.JobStatus.FINISHED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

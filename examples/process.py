"""Build sessions by hand, with state and timers: the clicks of each user until 5 seconds pass without one.

Run it with `python examples/process.py`. It needs no Spark: the job runs in threads of this process.
"""

from __future__ import annotations

import tempfile
from typing import Any

import snapline as sl
from snapline.testing import ThreadCluster

CLICKS = "user STRING, time BIGINT"
GAP_MS = 5_000


class Sessions(sl.ProcessFunction):
    """Counts the clicks of a user; a timer that every click postpones ends the session."""

    def open(self, context: sl.ProcessContext) -> None:
        self.clicks = context.value_state("clicks", int, default=0)
        self.end_ms = context.value_state("end", int)  # the time of the timer

    def process(self, row: dict[str, Any], context: sl.ProcessContext) -> None:
        end_ms = self.end_ms.get()
        if end_ms is not None:
            context.delete_event_timer(end_ms)
            if row["time"] >= end_ms:  # the watermark lags behind this row
                self.on_timer(end_ms, context)
        self.clicks.set(self.clicks.get() + 1)
        self.end_ms.set(row["time"] + GAP_MS)
        context.set_event_timer(row["time"] + GAP_MS)

    def on_timer(self, time_ms: int, context: sl.ProcessContext) -> None:
        context.emit({"user": context.key, "clicks": self.clicks.get(), "end": time_ms})
        self.clicks.clear()
        self.end_ms.clear()


def make_job(directory: str) -> sl.Job:
    job = sl.Job("sessions", checkpoints=sl.Checkpoints(interval="200ms", storage=f"{directory}/chk"))
    (
        job.source(sl.sources.Rate(rows=20_000, users=50, splits=1), uid="clicks")
        # Two seconds with a click every millisecond, then 20 without.
        .map(lambda row: {"user": row["user"], "time": row["id"] // 2000 * 20_000 + row["id"]}, schema=CLICKS)
        .with_watermarks(sl.Watermarks("time"))
        .key_by("user")
        .process(Sessions(), schema="user STRING, clicks BIGINT, end BIGINT", uid="sessions")
        .sink(sl.sinks.Files(f"{directory}/out"), uid="out")
    )
    return job


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(make_job(directory).run(ThreadCluster()))
        sessions = sl.sinks.read_files(f"{directory}/out").to_pylist()
        print(f"{len(sessions)} sessions with {sum(session['clicks'] for session in sessions)} clicks")

"""Find the busiest users of every second: a window over rows, and a second one over its results.

Run it with `python examples/windows.py`. It needs no Spark: the job runs in threads of this process.
"""

import tempfile

import snapline as sl
from snapline.testing import ThreadCluster


def make_job(directory: str) -> sl.Job:
    job = sl.Job("busiest", parallelism=2, checkpoints=sl.Checkpoints(interval="500ms", storage=f"{directory}/chk"))
    rows = sl.sources.Rate(10_000, rows=20_000, users=8)
    clicks = job.source(rows, uid="clicks", watermarks=sl.Watermarks("time", delay="100ms"))
    per_user = clicks.key_by("user").window(sl.Tumbling("1s")).aggregate(n=sl.count(), uid="per-user")
    (
        per_user.key_by("window_start", "window_end")
        .window(sl.GivenWindow())  # the window of the counts
        .aggregate(busiest=sl.top_n("user", 3, by="n"), clicks=sl.sum("n"), uid="busiest")
        .sink(sl.sinks.Files(f"{directory}/out"), uid="out")
    )
    return job


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(make_job(directory).run(ThreadCluster()))
        windows = sl.sinks.read_files(f"{directory}/out").sort_by("window_start").to_pylist()
    for window in windows:
        print(f"{window['window_start']:%H:%M:%S}  {', '.join(window['busiest'])}")
    print(f"{sum(window['clicks'] for window in windows)} clicks in all")

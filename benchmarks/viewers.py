"""What looking at a job costs: `python -m benchmarks.viewers history [--json]`, `... viewers live [--json]`.

history: how long the REST interface takes to answer about a long history (10,000 checkpoints of 1,000 subtasks), asked
over loopback by another process, while a new checkpoint appears with every view. No job runs.

live: how much of its throughput a job loses while viewers look at it (`benchmarks/live_viewers.py`).
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from benchmarks import live_viewers
from benchmarks.parts import conditions

import snapline as sl
from snapline.devtools.kit.sample_views import ScriptedJob, long_history, sample_view
from snapline.protocol.statistics.job_view import JobView
from snapline.web.rest_ids import hex_id
from snapline.web.web_server import close_all, serve

JOB = "clicks"
VERTICES = ("clicks", "out")


class Growing(ScriptedJob):
    """A job whose history begins with a new checkpoint in every view, and loses its oldest."""

    def __init__(self, checkpoints: int, subtasks: int) -> None:
        parallelism = dict.fromkeys(VERTICES, subtasks // len(VERTICES))
        history = long_history(checkpoints, subtasks, VERTICES)
        super().__init__(sample_view(JOB, vertices=parallelism, statistics=history))

    def view(self) -> Future[JobView]:
        view = self.shown
        assert isinstance(view, JobView)
        newest = view.statistics.history[0]
        history = (replace(newest, id=newest.id + 1), *view.statistics.history[:-1])
        self.shown = replace(view, statistics=replace(view.statistics, history=history))
        return super().view()


def paths(checkpoints: int) -> Mapping[str, Callable[[], str]]:
    """What is asked for, by name; every time about another checkpoint."""

    def any_id() -> int:
        return random.randint(checkpoints // 4, checkpoints - 100)  # noqa: S311

    own, flink = f"/snapline/jobs/{JOB}", f"/jobs/{hex_id(JOB)}"
    return {
        "job": lambda: own,
        "newest 100": lambda: f"{own}/checkpoints?limit=100",
        "older 100": lambda: f"{own}/checkpoints?limit=100&before={any_id()}",
        "details": lambda: f"{own}/checkpoints/{any_id()}",
        "whole history": lambda: f"{flink}/checkpoints",
        "Flink's details": lambda: f"{flink}/checkpoints/details/{any_id()}",
        "Flink's subtasks": lambda: f"{flink}/checkpoints/details/{any_id()}/subtasks/{hex_id(VERTICES[0])}",
        "metrics": lambda: "/metrics",
    }


def ask(port: int, checkpoints: int, requests: int, answers: Any) -> None:
    """Ask in turns; for each name the milliseconds of all requests, the first of all among them, and the bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    asked = paths(checkpoints)
    times: dict[str, list[float]] = {name: [] for name in asked}
    sizes: dict[str, int] = {}
    for _ in range(requests):
        for name, path in asked.items():
            start_s = time.perf_counter()
            connection.request("GET", path())
            reply = connection.getresponse()
            sizes[name] = len(reply.read())
            times[name].append((time.perf_counter() - start_s) * 1000)
            assert reply.status == 200, f"{name}: {reply.status}"
    connection.close()
    answers.send((times, sizes))


def history(checkpoints: int, subtasks: int, requests: int) -> dict[str, Any]:
    served = serve(Growing(checkpoints, subtasks), sl.Monitoring(port=None))
    try:
        port = int(served.url.partition("/#")[0].rpartition(":")[2])
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe(duplex=False)
        viewer = spawn.Process(target=ask, args=(port, checkpoints, requests, there))
        viewer.start()
        there.close()
        times, sizes = here.recv()
        viewer.join()
    finally:
        close_all()
    return {
        name: {
            "p50_ms": round(statistics.median(found), 2),
            "p99_ms": round(statistics.quantiles(found, n=100)[98], 2),
            "max_ms": round(max(found), 2),
            "first_ms": round(found[0], 2),
            "bytes": sizes[name],
        }
        for name, found in times.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.viewers", description=__doc__)
    parser.add_argument("part", choices=["history", "live"], help="what to measure")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--checkpoints", type=int, default=10_000, help="how many are in the history (10000)")
    parser.add_argument("--subtasks", type=int, default=1000, help="how many each of them has (1000)")
    parser.add_argument("--requests", type=int, default=300, help="how often each question is asked (300)")
    parser.add_argument("--viewers", type=int, default=10, help="live: how many look (10)")
    parser.add_argument("--turns", type=int, default=12, help="live: turns with and without them (12)")
    parser.add_argument("--seconds", type=float, default=5.0, help="live: length of each turn (5)")
    options = parser.parse_args()
    if options.part == "live":
        return live(options.viewers, options.turns, options.seconds, as_json=options.json)
    found = history(options.checkpoints, options.subtasks, options.requests)
    chosen = {"checkpoints": options.checkpoints, "subtasks": options.subtasks, "requests": options.requests}
    if options.json:
        print(json.dumps({"history": found, "conditions": {**conditions(), **chosen}}))
        return 0
    for name, figures in found.items():
        shown = "  ".join(f"{part} {figures[f'{part}_ms']:8.1f} ms" for part in ("p50", "p99", "max", "first"))
        print(f"{name:18} {shown}  {figures['bytes'] / 1e3:8.0f} kB")
    return 0


def live(viewers: int, turns: int, seconds: float, *, as_json: bool) -> int:
    found = live_viewers.measure(viewers, turns, seconds)
    chosen = {"viewers": viewers, "turns": turns, "seconds": seconds, "keys": live_viewers.KEYS}
    if as_json:
        print(json.dumps({"live": found, "conditions": {**conditions(), **chosen}}))
        return 0
    low, high, cores = min(found["pairs"]), max(found["pairs"]), found["cores"]
    print(
        f"{viewers} viewers cost {found['cost']:.2%} of the throughput: {found['rows_per_s_with']:,.0f} against "
        f"{found['rows_per_s_without']:,.0f} rows/s"
    )
    print(
        f"pairs of turns: median {found['median_of_pairs']:.2%}, from {low:.2%} to {high:.2%}, "
        f"standard error {found['standard_error']:.2%}"
    )
    print(
        f"the driver took {cores['driver_with']:.1%} of a core with them, {cores['driver_without']:.1%} without; "
        f"they took {cores['viewers']:.1%}"
    )
    print(
        f"{found['requests']} answers took {found['answer_p50_ms']:.1f} ms at the median, "
        f"{found['answer_p99_ms']:.1f} ms at p99"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What viewers cost a job that runs at full speed. Run it as `python -m benchmarks.viewers live`.

One job on two operator processes: a source at full speed, a hash exchange, sums of 100,000 keys and a sink, with a
checkpoint every second. In one run, turns without viewers take turns with those in which viewers ask each second for
what the page of the job asks for: the job itself and its newest 100 checkpoints. Compares the rows that went into the
sums in each. The order alternates from pair to pair. The viewers are one process that reads answers and does not look
into them; what it takes of the cores is told apart, and so is what the driver takes in both kinds of turns.
"""

from __future__ import annotations

import multiprocessing
import shutil
import socket
import statistics
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.parts import Discard, Prebuilt, temporary

import snapline as sl
from snapline.testing import ProcessCluster
from snapline.web.rest_ids import hex_id

KEYS = 100_000
EACH_S = 1.0
WARM_UP_S = 5.0
TIMEOUT_S = 60.0


def measure(viewers: int, turns: int, seconds: float, warm_up_s: float = WARM_UP_S) -> dict[str, Any]:
    """Returns rows per second with and without viewers, in turns of one run, and how long viewers waited."""
    directory = temporary()
    handle = _job(directory, endless_s=2 * turns * seconds + 10 * warm_up_s + 600).start(ProcessCluster())
    rates: dict[bool, list[float]] = {True: [], False: []}
    driver_s = {True: 0.0, False: 0.0}
    try:
        handle.checkpoint()
        with _Viewers(handle, viewers) as crowd:
            time.sleep(warm_up_s)
            for turn in range(turns):
                for is_on in (True, False) if turn % 2 else (False, True):
                    crowd.look(is_on)
                    start_s = time.process_time()
                    rates[is_on].append(_rows_per_s(handle, seconds))
                    driver_s[is_on] += time.process_time() - start_s
                change = 1 - rates[True][-1] / rates[False][-1]
                print(f"turn {turn + 1}: {change:+.1%}", file=sys.stderr, flush=True)
            seen = crowd.leave()
    finally:
        handle.cancel()
        shutil.rmtree(directory, ignore_errors=True)
    cores = {"viewers": seen["cpu_s"], "driver_with": driver_s[True], "driver_without": driver_s[False]}
    return {
        **_throughput(rates),
        **_answers(seen["waits_ms"]),
        "bytes": seen["bytes"],
        "cores": {name: used_s / (turns * seconds) for name, used_s in cores.items()},
    }


def _job(directory: str, endless_s: float) -> sl.Job:
    job = sl.Job(
        "viewed",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="1s", storage=directory, history=100),
        execution=sl.Execution(metrics_interval="50ms"),
        restart=sl.NoRestart(),
        monitoring=sl.Monitoring(port=None),
    )
    job.source(Prebuilt(endless_s, 16_384), uid="rows").map_batches(_few_keys, uid="keys").key_by("key").aggregate(
        uid="sums", n=sl.count(), total=sl.sum("c1")
    ).sink(Discard(), uid="out")
    return job


def _few_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    keys = np.remainder(batch.column("c0").to_numpy(), KEYS)
    return pa.record_batch([pa.array(keys), batch.column("c1")], names=["key", "c1"])


def _rows_per_s(handle: sl.JobHandle, seconds: float) -> float:
    start_s, start_rows = time.monotonic(), _rows(handle)
    time.sleep(seconds)
    return (_rows(handle) - start_rows) / (time.monotonic() - start_s)


def _rows(handle: sl.JobHandle) -> int:
    return sum(task.rows_in for name, task in handle.metrics().items() if name.startswith("sums/"))


def _throughput(rates: dict[bool, list[float]]) -> dict[str, Any]:
    costs = [1 - on / off for on, off in zip(rates[True], rates[False], strict=True)]
    with_them, without = statistics.mean(rates[True]), statistics.mean(rates[False])
    return {
        "rows_per_s_without": without,
        "rows_per_s_with": with_them,
        "cost": 1 - with_them / without,
        "median_of_pairs": statistics.median(costs),
        "standard_error": statistics.stdev(costs) / len(costs) ** 0.5 if len(costs) > 1 else 0.0,
        "pairs": costs,
    }


def _answers(waits_ms: list[float]) -> dict[str, Any]:
    ordered = sorted(waits_ms)
    return {
        "requests": len(ordered),
        "answer_p50_ms": statistics.median(ordered),
        "answer_p99_ms": ordered[int(0.99 * (len(ordered) - 1))],
    }


class _Viewers:
    """A process with viewers of a job. They look, or do not."""

    def __init__(self, handle: sl.JobHandle, viewers: int) -> None:
        port = int(handle.url.partition("/#")[0].rpartition(":")[2])
        own = f"/snapline/jobs/{hex_id(handle.id)}"
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        paths = (own, f"{own}/checkpoints?limit=100")
        self._process = spawn.Process(target=_view, args=(port, paths, viewers, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> _Viewers:
        self._pipe.recv()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()

    def look(self, is_on: bool) -> None:
        self._pipe.send(is_on)

    def leave(self) -> dict[str, Any]:
        """What they have seen."""
        self._pipe.send(None)
        seen: dict[str, Any] = self._pipe.recv()
        return seen


def _view(port: int, paths: tuple[str, ...], viewers: int, pipe: Connection) -> None:
    """Each viewer asks for all paths, one after the other, once in a second, at a time of its own.

    Whoever does not look has no connection: the server would close it.
    """
    connections: list[socket.socket] = []
    pipe.send("ready")
    waits_ms: list[float] = []
    size, turn, is_on = 0, 0, False
    start_cpu_s, next_s = time.process_time(), time.monotonic()
    while True:
        wait_s = max(next_s - time.monotonic(), 0) if is_on and viewers else None
        if pipe.poll(wait_s):
            command = pipe.recv()
            if command is None:
                pipe.send({"waits_ms": waits_ms or [0.0], "bytes": size, "cpu_s": time.process_time() - start_cpu_s})
                return
            for connection in connections:
                connection.close()
            is_on, next_s = command, time.monotonic()
            seats = range(viewers if is_on else 0)
            connections = [socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) for _ in seats]
            continue
        for path in paths:
            start_s = time.perf_counter()
            size += _ask(connections[turn % viewers], port, path)
            waits_ms.append((time.perf_counter() - start_s) * 1000)
        turn += 1
        next_s += EACH_S / viewers


def _ask(connection: socket.socket, port: int, path: str) -> int:
    """The size of the answer."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    assert " 200 " in status, f"{path}: {status}"
    headers = dict(line.lower().split(": ", 1) for line in lines)
    length, got = int(headers["content-length"]), len(body)
    while got < length:
        got += len(_received(connection))
    return got


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 18)
    assert data, "the server has closed the connection"
    return data

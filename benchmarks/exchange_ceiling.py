"""What a bare socket carries: the ceiling for an exchange between two processes of one machine.

One process serialises Arrow batches and sends them, another reads and decodes them. Nothing else: no hashing, no
credits, no barriers. `python -m benchmarks.exchange_ceiling` prints the figures.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import struct
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

COLUMNS = ("int64", "int64", "int64", "float64", "float64", "float64", "string", "string")
ROWS = 8192

_LENGTH = struct.Struct("!I")


def make_batch(columns: Sequence[str] = COLUMNS, rows: int = ROWS, seed: int = 1) -> pa.RecordBatch:
    """Returns a batch of random values. The first column is a good key; strings have about ten characters."""
    random = np.random.default_rng(seed)
    arrays = []
    for kind in columns:
        numbers = random.integers(0, 1_000_000_000, rows)
        if kind == "int64":
            arrays.append(pa.array(numbers))
        elif kind == "float64":
            arrays.append(pa.array(numbers / 7))
        elif kind == "string":
            arrays.append(pa.array(numbers).cast(pa.string()))
        else:
            raise ValueError(f"no column of the type {kind!r}; use int64, float64 or string")
    return pa.record_batch(arrays, names=[f"c{index}" for index in range(len(columns))])


def measure(seconds: float, columns: Sequence[str] = COLUMNS, rows: int = ROWS) -> dict[str, float]:
    """Returns rows and bytes per second over about `seconds`, in batches of `rows` rows."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_receive, args=(theirs, list(columns), rows), daemon=True)
    process.start()
    theirs.close()
    batch = make_batch(columns, rows)
    with socket.create_connection(("127.0.0.1", ours.recv())) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            body = batch.serialize()
            sock.sendall(_LENGTH.pack(body.size))
            sock.sendall(body)
    received, size, elapsed_s = ours.recv()
    process.join()
    process.close()
    return {"rows_per_s": received / elapsed_s, "bytes_per_s": size / elapsed_s, "seconds": elapsed_s}


def _receive(pipe: Connection, columns: list[str], rows: int) -> None:
    schema = make_batch(columns, 1).schema
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        sock, _ = listener.accept()
    with sock:
        received = size = 0
        header = bytearray(_LENGTH.size)
        start = 0.0
        while _filled(sock, memoryview(header)):
            start = start or time.perf_counter()
            (length,) = _LENGTH.unpack(header)
            body: Any = pa.allocate_buffer(length)
            if not _filled(sock, memoryview(body)):
                break
            received += pa.ipc.read_record_batch(body, schema).num_rows
            size += length
        pipe.send((received, size, time.perf_counter() - start))
    assert received % rows == 0


def _filled(sock: socket.socket, view: memoryview) -> bool:
    position = 0
    while position < len(view):
        count = sock.recv_into(view[position:])
        if not count:
            return False
        position += count
    return True


if __name__ == "__main__":
    print(json.dumps(measure(3.0)))

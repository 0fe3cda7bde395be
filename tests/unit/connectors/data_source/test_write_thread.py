"""One call of `write`: fed while it runs, back pressure, its end, its errors, and a task that ends before it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from snapline.connectors.data_source.write_thread import WriteStoppedError, WriteThread

DEADLINE_S = 30.0


def batch(x: int) -> pa.RecordBatch:
    return pa.record_batch({"x": [x]})


def test_it_gets_the_batches_in_order_and_gives_its_result() -> None:
    thread = WriteThread(lambda batches: [each.column(0)[0].as_py() for each in batches], "it")
    for x in range(100):
        thread.put(batch(x))
    assert thread.finish() == list(range(100))


def test_the_task_waits_for_code_that_is_slow() -> None:
    goes_on, is_full = threading.Event(), threading.Event()

    def write(batches: Iterator[Any]) -> int:
        assert goes_on.wait(DEADLINE_S)
        return len(list(batches))

    thread = WriteThread(write, "it")

    def put_all() -> None:
        for x in range(4):
            thread.put(batch(x))
        is_full.set()
        thread.put(batch(4))
        is_full.clear()

    task = threading.Thread(target=put_all)
    task.start()
    assert is_full.wait(DEADLINE_S)
    assert task.is_alive()
    goes_on.set()
    task.join(DEADLINE_S)
    assert not is_full.is_set()
    assert thread.finish() == 5


def test_its_errors_are_raised_in_the_task() -> None:
    def write(batches: Iterator[Any]) -> None:
        next(batches)
        raise KeyError("gone")

    thread = WriteThread(write, "it")
    with pytest.raises(KeyError, match="gone"):
        put_many(thread)
    with pytest.raises(KeyError, match="gone"):
        thread.finish()


def put_many(thread: WriteThread) -> None:
    for x in range(10**6):
        thread.put(batch(x))


def test_rows_behind_an_early_end_are_dropped() -> None:
    thread = WriteThread(lambda batches: next(batches).num_rows, "it")
    for x in range(100):
        thread.put(batch(x))
    assert thread.finish() == 1


def test_a_task_that_ends_stops_it_with_an_error() -> None:
    seen: list[str] = []

    def write(batches: Iterator[Any]) -> None:
        try:
            list(batches)
        except WriteStoppedError:
            seen.append("stopped")
            raise

    thread = WriteThread(write, "it")
    thread.put(batch(1))
    thread.stop()
    assert seen == ["stopped"]

"""A pool whose threads keep no process alive."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import wait

import pytest

from snapline.storage.objects.daemon_pool import DaemonPool


def test_calls_run_on_named_daemons_up_to_the_limit() -> None:
    barrier = threading.Barrier(3, timeout=10)
    names: set[tuple[str, bool]] = set()

    def meet() -> None:
        names.add((threading.current_thread().name, threading.current_thread().daemon))
        barrier.wait()

    with DaemonPool(3, "pool") as pool:
        for future in [pool.submit(meet) for _ in range(6)]:
            future.result(10)
    assert names == {("pool_0", True), ("pool_1", True), ("pool_2", True)}


def test_an_idle_thread_is_used_before_another_starts() -> None:
    with DaemonPool(8, "pool") as pool:
        names = {pool.submit(lambda: threading.current_thread().name).result(10) for _ in range(1)}
        for _ in range(100):
            if pool._idle:
                names.add(pool.submit(lambda: threading.current_thread().name).result(10))
    assert names == {"pool_0"}


def test_results_errors_and_maps_come_back_in_order() -> None:
    with DaemonPool(2, "pool") as pool:
        assert list(pool.map(lambda number: number * 2, range(5))) == [0, 2, 4, 6, 8]
        with pytest.raises(ZeroDivisionError):
            pool.submit(lambda: 1 // 0).result(10)


def test_what_has_not_begun_can_be_dropped_and_counts_as_done() -> None:
    release, has_begun = threading.Event(), threading.Event()

    def hold() -> None:
        has_begun.set()
        release.wait(10)

    pool = DaemonPool(1, "pool")
    first = pool.submit(hold)
    second = pool.submit(lambda: None)
    assert has_begun.wait(10)
    pool.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    assert not wait({second}, 10).not_done
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(lambda: None)
    release.set()
    pool.shutdown()
    assert first.done()


def test_everything_submitted_is_done_when_the_pool_is_shut() -> None:
    done: list[int] = []
    with DaemonPool(1, "pool") as pool:
        for number in range(20):
            pool.submit(done.append, number)
    assert done == list(range(20))


def test_a_call_that_hangs_does_not_keep_the_process_alive() -> None:
    program = (
        "import threading\n"
        "from snapline.storage.objects.daemon_pool import DaemonPool\n"
        "begun = threading.Event()\n"
        "DaemonPool(1, 'pool').submit(lambda: (begun.set(), threading.Event().wait()))\n"
        "begun.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=30, check=False).returncode == 0

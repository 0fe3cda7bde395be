"""Threads and clocks of this process."""

from __future__ import annotations

import threading
import time

from snapline.runtime.scheduler.system_threads import SystemThreads, wall_clock_ms


def test_a_thread_waits_for_its_start_and_keeps_no_process_alive() -> None:
    seen: list[str] = []
    thread = SystemThreads().thread(lambda: seen.append(threading.current_thread().name), "it")
    assert (thread.daemon, thread.is_alive(), seen) == (True, False, [])
    thread.start()
    thread.join(10)
    assert seen == ["it"]


def test_processing_time_is_that_of_the_wall_and_intervals_never_go_back() -> None:
    threads = SystemThreads()
    assert abs(threads.now_ms() - time.time() * 1000) < 60_000
    assert wall_clock_ms() <= threads.now_ms()
    assert threads.time_s() <= threads.time_s()


def test_timers_of_a_mailbox_go_by_the_clock_it_was_given() -> None:
    now = [0]
    mailbox = SystemThreads().mailbox(lambda: now[0])
    mailbox.at(10, lambda: None)
    assert not mailbox.take_mail()
    now[0] = 10
    assert mailbox.take_mail()


def test_a_pool_has_threads_of_its_own() -> None:
    executor = SystemThreads().executor(1, "pool")
    assert executor.submit(lambda: threading.current_thread().name).result(10).startswith("pool")
    executor.shutdown()

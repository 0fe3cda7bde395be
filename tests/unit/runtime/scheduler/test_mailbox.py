"""The mailbox of a thread."""

from __future__ import annotations

import threading

from snapline.runtime.scheduler.mailbox import ThreadMailbox
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.runtime.wire.channel_items import Item, ItemKind


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def test_mail_comes_in_order_and_ahead_of_timers() -> None:
    clock, calls = Clock(), list[str]()
    mailbox = ThreadMailbox(clock)
    mailbox.at(0, lambda: calls.append("timer"))
    mailbox.post(lambda: calls.append("first"))
    mailbox.post(lambda: calls.append("second"))
    while due := mailbox.take_mail():
        for mail in due:
            mail()
    assert calls == ["first", "second", "timer"]


def test_timers_fire_at_their_time_and_never_when_cancelled() -> None:
    clock, calls = Clock(), list[int]()
    mailbox = ThreadMailbox(clock)
    mailbox.at(20, lambda: calls.append(20))
    mailbox.at(10, lambda: calls.append(10))
    cancelled = mailbox.at(15, lambda: calls.append(15))
    cancelled.cancel()
    assert not mailbox.take_mail()
    clock.now_ms = 15
    while due := mailbox.take_mail():
        for mail in due:
            mail()
    assert calls == [10]
    clock.now_ms = 30
    while due := mailbox.take_mail():
        for mail in due:
            mail()
    assert calls == [10, 20]


def test_what_comes_between_the_look_and_the_wait_is_not_missed() -> None:
    mailbox = ThreadMailbox(wall_clock_ms)
    mailbox.clear()
    assert not mailbox.take_mail()
    mailbox.arrive(0, Item(ItemKind.CANCEL, 1))
    done = threading.Event()

    def wait() -> None:
        mailbox.wait()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    assert done.wait(5)


def test_a_wait_ends_when_a_timer_is_due() -> None:
    mailbox = ThreadMailbox(wall_clock_ms)
    fired = list[bool]()
    mailbox.at(0, lambda: fired.append(True))
    mailbox.clear()
    mailbox.wait()
    (mail,) = mailbox.take_mail()
    mail()
    assert fired == [True]


def test_mail_of_other_threads_wakes_the_task() -> None:
    mailbox = ThreadMailbox(wall_clock_ms)
    mailbox.clear()
    sender = threading.Timer(0.02, lambda: mailbox.post(lambda: None))
    sender.start()
    mailbox.wait()
    assert mailbox.take_mail()
    sender.join()


def test_a_timer_too_far_away_to_wait_for() -> None:
    mailbox = ThreadMailbox(wall_clock_ms)
    mailbox.at((1 << 63) - 1, lambda: None)
    mailbox.wake()
    mailbox.wait()
    assert not mailbox.take_mail()


def test_cancelled_timers_do_not_pile_up() -> None:
    clock, calls = Clock(), list[int]()
    mailbox = ThreadMailbox(clock)
    for number in range(10_000):
        mailbox.at(1 << 60, lambda: None).cancel()
        if number % 1000 == 0:
            mailbox.at(number, lambda number=number: calls.append(number))  # type: ignore[misc]
    assert len(mailbox._timers) <= 100
    clock.now_ms = 10_000
    while due := mailbox.take_mail():
        for mail in due:
            mail()
    assert calls == list(range(0, 10_000, 1000))


def test_a_thread_serves_its_mail_and_timers_until_its_work_is_over() -> None:
    clock, calls = Clock(), list[str]()
    mailbox = ThreadMailbox(clock)
    mailbox.at(0, lambda: calls.append("timer"))
    mailbox.post(lambda: mailbox.post(lambda: calls.append("mail of mail")))
    mailbox.post(lambda: calls.append("mail"))
    mailbox.serve(lambda: len(calls) == 3)
    assert calls == ["mail", "timer", "mail of mail"], "what was due comes before what it led to"


def test_no_timer_is_waited_for_that_was_cancelled() -> None:
    clock = Clock()
    mailbox = ThreadMailbox(clock)
    timer = mailbox.at(500, lambda: None)
    mailbox.at(2000, lambda: None)
    assert mailbox.timeout_s() == 0.5
    timer.cancel()
    assert mailbox.timeout_s() == 2
    clock.now_ms = 5000
    assert mailbox.timeout_s() == 0

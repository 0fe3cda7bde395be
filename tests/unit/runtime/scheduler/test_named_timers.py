"""Timers by name."""

from __future__ import annotations

from tests.unit.runtime.runtime_bench import Bench

from snapline.runtime.scheduler.named_timers import NamedTimers


def test_a_timer_fires_once_and_setting_it_again_replaces_it() -> None:
    bench, log = Bench(), list[str]()
    timers = NamedTimers(bench.scheduler)
    timers.set("a", 100, log.append, "early")
    timers.set("a", 200, log.append, "late")
    timers.set("b", -5, log.append, "at once")
    bench.advance(150)
    assert log == ["at once"]
    bench.run()
    assert log == ["at once", "late"]


def test_what_is_cancelled_never_fires() -> None:
    bench, log = Bench(), list[str]()
    timers = NamedTimers(bench.scheduler)
    for name in ("a", "b", "c"):
        timers.set(name, 10, log.append, name)
    timers.cancel("a")
    timers.cancel("unknown")
    bench.advance(5)
    timers.cancel_all()
    bench.run()
    assert log == []


def test_a_call_may_set_its_own_timer_again() -> None:
    bench, log = Bench(), list[int]()
    timers = NamedTimers(bench.scheduler)

    def beat() -> None:
        log.append(bench.kernel.now_ms)
        if len(log) < 3:
            timers.set("beat", 10, beat)

    beat()
    bench.run()
    assert log == [0, 10, 20]

"""The pools of a master: hooks and journal have one thread, so that their calls come one at a time."""

from __future__ import annotations

from tests.unit.runtime.runtime_bench import Bench

from snapline.runtime.master.master_calls import MasterCalls


def test_calls_to_the_journal_and_to_hooks_come_one_at_a_time_and_others_side_by_side() -> None:
    bench = Bench()
    calls = MasterCalls.of(bench.scheduler)
    for pool, most in ((calls.journal, 1), (calls.hooks, 1), (calls.storage, 4), (calls.coordinators, 4)):
        running: list[int] = []
        seen: list[int] = []

        def call(running: list[int] = running, seen: list[int] = seen) -> None:
            running.append(1)
            seen.append(len(running))
            bench.kernel.sleep(50)
            running.pop()

        for _ in range(6):
            pool.run(call, lambda _: None, lambda error: None)
        bench.advance(1000)
        assert max(seen) == most

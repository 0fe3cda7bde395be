"""The queue of timer slots, by time."""

from __future__ import annotations

import numpy as np
import pytest

from snapline.state.slot_queue import SlotQueue


@pytest.mark.parametrize("limit", [None, 1, 7, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_filed_comes_out_by_time_and_slot(limit: int | None, seed: int) -> None:
    chance = np.random.default_rng(seed)
    queue, filed = SlotQueue(), list[tuple[int, int]]()
    now_ms = 0
    for _ in range(40):
        slots = chance.integers(0, 50, chance.integers(0, 30))
        times = now_ms + chance.integers(-5, 40, len(slots))
        if chance.random() < 0.3:
            for place in range(len(slots)):
                queue.add(slots[place : place + 1], times[place : place + 1])
        else:
            queue.add(slots, times)
        filed += zip(times.tolist(), slots.tolist(), strict=True)
        assert queue.next_ms() == min((time for time, _ in filed), default=None)
        now_ms += int(chance.integers(0, 12))
        due = sorted(item for item in filed if item[0] <= now_ms)
        found: list[tuple[int, int]] = []
        while (taken := queue.take(now_ms, limit)) is not None:
            part = list(zip(taken[1].tolist(), taken[0].tolist(), strict=True))
            assert part
            if limit is not None and len(part) > limit:
                assert part[-1][0] == part[limit - 1][0], "no more than the limit but for those of the same time"
            assert not found or found[-1][0] < part[0][0], "those of a time come together"
            found += part
        assert found == due
        filed = [item for item in filed if item[0] > now_ms]


def test_nothing_is_due_before_its_time() -> None:
    queue = SlotQueue()
    assert queue.next_ms() is None
    assert queue.take(10**15, None) is None
    queue.add(np.array([1, 2]), np.array([10, 20]))
    queue.add(np.array([3]), np.array([5]))
    assert queue.next_ms() == 5
    assert queue.take(4, None) is None
    taken = queue.take(10, None)
    assert taken is not None
    assert [column.tolist() for column in taken] == [[3, 1], [5, 10]]
    assert queue.next_ms() == 20


def test_what_was_taken_keeps_no_memory() -> None:
    queue = SlotQueue()
    queue.add(np.arange(100_000), np.append(np.arange(99_999), 10**9))
    assert queue.take(99_999, None) is not None
    assert sum(run.times.base is None and run.times.nbytes for run in queue._runs) < 1000

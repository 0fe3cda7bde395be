"""The queue of a channel: what may leave, in which order, merged how."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from snapline.runtime.network.output_queue import ChannelLimits, OutputQueue, merged
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import IDLE, Barrier, BarrierKind

LIMITS = ChannelLimits(batch_size_bytes=2000, flush_timeout_ms=100, channel_memory_bytes=10_000)
EAGER = ChannelLimits(batch_size_bytes=2000, flush_timeout_ms=0, channel_memory_bytes=10_000)


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def watermark(value: int) -> Item:
    return Item(ItemKind.WATERMARK, value)


def taken(queue: OutputQueue) -> list[Any]:
    """Everything that may leave: rows of data, values of the rest."""
    found: list[Any] = []
    while (entry := queue.take()) is not None:
        item = merged(*entry)
        found.append(item.value.column(0).to_pylist() if item.kind.is_data else item.value)
    return found


def test_small_data_is_held_back_until_it_is_flushed() -> None:
    queue = OutputQueue(LIMITS)
    queue.append(data_item(rows(1)))
    queue.append(data_item(rows(2)))
    assert queue.is_holding
    assert queue.take() is None
    queue.flush()
    assert taken(queue) == [[1, 2]]


def test_what_has_to_arrive_soon_takes_along_what_was_held_back() -> None:
    queue = OutputQueue(LIMITS)
    queue.append(data_item(rows(1)))
    queue.append(Item(ItemKind.CANCEL, 7))
    assert taken(queue) == [[1], 7]


def test_a_watermark_does_not_overtake_held_data_but_merged_data_overtakes_it() -> None:
    queue = OutputQueue(LIMITS)
    for item in (data_item(rows(1)), watermark(10), data_item(rows(2)), watermark(20)):
        queue.append(item)
    assert queue.take() is None
    queue.flush()
    assert taken(queue) == [[1, 2], 20], "an older watermark says nothing more"


def test_the_watermark_ahead_of_idleness_is_kept() -> None:
    queue = OutputQueue(LIMITS)
    for item in (data_item(rows(1)), watermark(10), watermark(IDLE), data_item(rows(2))):
        queue.append(item)
    queue.flush()
    assert taken(queue) == [[1, 2], 10, IDLE]


def test_without_credit_only_data_waits() -> None:
    queue = OutputQueue(EAGER)
    queue.credit = 0
    queue.append(Item(ItemKind.CANCEL, 7))
    queue.append(data_item(rows(1)))
    queue.append(Item(ItemKind.CANCEL, 8))
    assert taken(queue) == [7], "nothing overtakes data"
    queue.credit = 1
    assert taken(queue) == [[1], 8]
    assert queue.credit < 0, "one item may exceed it"


def test_what_is_queued_and_sent_is_counted() -> None:
    queue = OutputQueue(EAGER)
    item = data_item(rows(1))
    before = queue.credit
    while not queue.is_full:
        queue.append(item)
    assert queue.queued_bytes == len(queue) * item.size
    count = len(queue)
    taken(queue)
    assert (queue.queued_bytes, before - queue.credit) == (0, count * item.size)


def test_an_unaligned_barrier_overtakes_all_data_and_says_which() -> None:
    queue = OutputQueue(LIMITS)
    queue.append(data_item(rows(1)))
    queue.append(watermark(5))
    queue.append(data_item(rows(2)))
    barrier = Barrier(1, 0, BarrierKind.UNALIGNED)
    assert [batch.column(0).to_pylist() for batch in queue.overtake(barrier)] == [[1], [2]]
    assert taken(queue)[0] == barrier


def test_a_barrier_with_timeout_overtakes_only_what_is_ahead_of_it() -> None:
    queue = OutputQueue(EAGER)
    barrier = Barrier(1, 0, BarrierKind.ALIGNED_WITH_TIMEOUT, 10)
    queue.append(data_item(rows(1)))
    queue.append(Item(ItemKind.BARRIER, barrier))
    queue.append(data_item(rows(2)))
    assert [batch.column(0).to_pylist() for batch in queue.prioritize(1)] == [[1]]
    assert queue.prioritize(1) == [], "it is unaligned now"
    assert queue.prioritize(2) == []
    assert taken(queue) == [barrier.as_unaligned(), [1, 2]]


def test_barriers_and_cancel_markers_keep_their_order() -> None:
    queue = OutputQueue(EAGER)
    first, second = (Barrier(number, 0, BarrierKind.UNALIGNED) for number in (1, 2))
    queue.overtake(first)
    queue.append(Item(ItemKind.CANCEL, 1))
    queue.append(data_item(rows(1)))
    queue.overtake(second)
    assert taken(queue) == [first, 1, second, [1]]


def test_a_cleared_queue_holds_and_counts_nothing() -> None:
    queue = OutputQueue(LIMITS)
    queue.append(data_item(rows(1)))
    queue.clear()
    assert (len(queue), queue.queued_bytes, queue.is_holding, queue.can_take) == (0, 0, False, False)

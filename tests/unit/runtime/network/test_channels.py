"""Channels: order, credits, holding back and overtaking; against what was sent, step by random step."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.errors import EngineError, PeerError
from snapline.runtime.network import channels
from snapline.runtime.network.channels import (
    LocalChannel,
    LocalInput,
    OutputChannel,
    RemoteChannel,
    RemoteInput,
)
from snapline.runtime.network.flusher import Flusher
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.network.output_queue import ChannelLimits
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import IDLE, Barrier, BarrierKind

SCHEMA = pa.schema([("number", pa.int64())])
KEY = ChannelKey(0, 1, 2)
LIMITS = ChannelLimits(batch_size_bytes=1024, flush_timeout_ms=10, channel_memory_bytes=4096)


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def numbers_of(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch.column(0).to_pylist()]


class NoFlusher:
    """Time stands still: only what is flushed by hand is."""

    def __init__(self) -> None:
        self.watched: list[float] = []

    def watch(self, holding: Any, due: float) -> None:
        self.watched.append(due)


class Ends:
    """Both tasks of a channel, and its link if it has one."""

    def __init__(self, limits: ChannelLimits = LIMITS, *, is_local: bool = True, may_be_unaligned: bool = True) -> None:
        self.items: list[Item] = []
        self.left: list[int] = []
        self.rooms = 0
        self.ends_read = 0
        self.is_scheduled = False
        self.flusher = NoFlusher()
        self.unread: list[int] = []
        self.channel: OutputChannel
        self.input: LocalInput | RemoteInput
        arguments: Any = (KEY, SCHEMA, self, limits, self.flusher)
        if is_local:
            self.channel = local = LocalChannel(*arguments, may_be_unaligned=may_be_unaligned)
            self.input = LocalInput()
            self.input.channel = local
            local.join(self, 5)
        else:
            self.channel = remote = RemoteChannel(*arguments, may_be_unaligned=may_be_unaligned)
            self.input = RemoteInput(KEY, SCHEMA, self, 5, limits.channel_memory_bytes)
            self.input.link = self
            remote.attach(self)

    # The tasks.

    def room_changed(self) -> None:
        self.rooms += 1

    def barrier_left(self, channel: OutputChannel, checkpoint_id: int) -> None:
        assert channel is self.channel
        self.left.append(checkpoint_id)

    def end_was_read(self, channel: OutputChannel) -> None:
        self.ends_read += 1

    def arrive(self, channel_index: int, item: Item) -> None:
        assert channel_index == 5
        self.items.append(item)
        if item.size:
            self.unread.append(item.size)

    def connection_lost(self, error: str) -> None:
        raise AssertionError(error)

    def consume(self) -> bool:
        if not self.unread:
            return False
        self.input.consumed(self.unread.pop(0))
        return True

    # The link.

    def schedule(self, channel: RemoteChannel) -> None:
        assert not self.is_scheduled, "is with its link already"
        self.is_scheduled = True

    def give_credit(self, key: ChannelKey, size: int) -> None:
        self.channel.add_credit(size)

    def tell_end_read(self, key: ChannelKey) -> None:
        self.channel.end_was_read()

    def deliver(self) -> bool:
        """Move one item over a connection."""
        if not self.is_scheduled:
            return False
        item = self.channel.take()
        if item is None:
            self.is_scheduled = False
            return False
        self.arrive(5, item)
        return True

    # What has come.

    @property
    def kinds(self) -> list[ItemKind]:
        return [item.kind for item in self.items]

    @property
    def numbers(self) -> list[int]:
        return numbers_of([item.value for item in self.items if item.kind.is_data])


STEPS = st.one_of(
    st.tuples(st.just("data"), st.integers(1, 150)),
    st.tuples(st.sampled_from(["watermark", "idle", "latency", "cancel", "flush", "consume", "deliver", "deliver"])),
    st.tuples(st.just("barrier"), st.sampled_from(list(BarrierKind))),
    st.tuples(st.just("prioritize")),
)


@given(st.lists(STEPS, max_size=80), st.booleans(), st.booleans(), st.sampled_from([0, 10]))
@settings(max_examples=100, deadline=None)
def test_a_channel_against_what_was_sent(
    steps: list[tuple[Any, ...]], is_local: bool, may_be_unaligned: bool, flush_timeout_ms: int
) -> None:
    limits = ChannelLimits(1024, flush_timeout_ms, 4096)
    ends = Ends(limits, is_local=is_local, may_be_unaligned=may_be_unaligned)
    channel = ends.channel
    sent = 0
    largest = 0
    latencies: list[int] = []
    watermark = None
    before: dict[int, int] = {}
    overtaken: dict[int, list[int]] = {}
    watermark_before: dict[int, int | None] = {}
    waiting: list[int] = []
    for number, (step, *arguments) in enumerate(steps, start=1):
        if step == "data":
            item = data_item(rows(*range(sent, sent + arguments[0])))
            sent += arguments[0]
            largest = max(largest, item.size)
            channel.send(item)
        elif step == "watermark":
            watermark = sent
            channel.send(Item(ItemKind.WATERMARK, sent))
        elif step == "idle":
            channel.send(Item(ItemKind.WATERMARK, IDLE))
        elif step == "latency":
            latencies.append(number)
            channel.send(Item(ItemKind.LATENCY, number))
        elif step == "cancel":
            channel.send(Item(ItemKind.CANCEL, number))
        elif step == "flush":
            channel.flush()
        elif step == "consume":
            ends.consume()
        elif step == "deliver":
            ends.deliver()
        elif step == "barrier":
            before[number] = sent
            watermark_before[number] = watermark
            timeout_ms = 5 if arguments[0] is BarrierKind.ALIGNED_WITH_TIMEOUT else None
            got = channel.send_barrier(Barrier(number, 0, arguments[0], timeout_ms))
            overtaken[number] = numbers_of(got)
            waiting.append(number)
        elif waiting:
            got = channel.prioritize(waiting[0])
            assert not (got and overtaken[waiting[0]]), "captured twice"
            overtaken[waiting[0]] += numbers_of(got)
            waiting.pop(0)
        assert sum(ends.unread) <= limits.channel_memory_bytes + max(2 * 1024 + largest, largest)
    channel.flush()
    while ends.deliver() or ends.consume():
        channel.flush()
    assert channel.is_empty
    assert channel.queued_bytes == 0
    assert ends.numbers == list(range(sent))
    assert [item.value for item in ends.items if item.kind is ItemKind.LATENCY] == latencies
    assert sorted(ends.left) == sorted(before)
    arrived = 0
    last_watermark = None
    for item in ends.items:
        if item.kind.is_data:
            arrived += item.value.num_rows
        elif item.kind is ItemKind.WATERMARK and item.value != IDLE:
            assert arrived >= item.value, "a watermark came before rows it speaks of"
            last_watermark = item.value
        elif item.kind is ItemKind.BARRIER:
            checkpoint_id = item.value.id
            assert list(range(arrived)) + overtaken[checkpoint_id] == list(range(before[checkpoint_id]))
            if not may_be_unaligned:
                assert not item.value.may_capture
                assert not overtaken[checkpoint_id]
            if not item.value.is_unaligned:
                assert last_watermark == watermark_before[checkpoint_id] or arrived > before[checkpoint_id]
    assert last_watermark == watermark


def test_small_batches_are_put_together_up_to_about_a_batch() -> None:
    ends = Ends(ChannelLimits(1024, 10, 100_000))
    for number in range(12):
        ends.channel.send(data_item(rows(number)))
        ends.channel.send(Item(ItemKind.WATERMARK, number))
    assert ends.kinds.count(ItemKind.DATA) == 3
    assert all(item.size <= 2 * 1024 for item in ends.items)
    assert ends.numbers == list(range(12))
    assert ends.kinds.count(ItemKind.WATERMARK) <= 6


def test_the_last_watermark_before_idleness_is_kept() -> None:
    ends = Ends(ChannelLimits(1024, 10, 100_000))
    ends.channel.send(data_item(rows(1)))
    for value in (1, 2, IDLE):
        ends.channel.send(Item(ItemKind.WATERMARK, value))
        ends.channel.send(data_item(rows(1)))
    ends.channel.flush()
    assert [item.value for item in ends.items if item.kind is ItemKind.WATERMARK] == [2, IDLE]


def test_filtered_data_is_never_put_together_and_never_overtaken() -> None:
    ends = Ends(is_local=False)
    for number in range(3):
        ends.channel.send(data_item(rows(number), filtered=True))
    with pytest.raises(AssertionError):
        ends.channel.send_barrier(Barrier(1, 0, BarrierKind.UNALIGNED))
    while ends.deliver():
        pass
    assert ends.kinds == [ItemKind.FILTERED_DATA] * 3


def test_what_is_held_leaves_with_the_barrier_behind_it() -> None:
    ends = Ends()
    ends.channel.send(data_item(rows(1)))
    ends.channel.send(Item(ItemKind.WATERMARK, 3))
    assert not ends.items
    assert len(ends.flusher.watched) == 1
    ends.channel.send_barrier(Barrier(1, 0))
    assert ends.kinds == [ItemKind.DATA, ItemKind.WATERMARK, ItemKind.BARRIER]
    ends.channel.send(Item(ItemKind.WATERMARK, 4))
    assert ends.kinds[-1] is ItemKind.WATERMARK, "nothing to wait for"


def test_what_is_held_leaves_when_the_task_pauses_but_not_too_often() -> None:
    ends = Ends()
    assert ends.channel.flush_in_pause() is None
    ends.channel.send(data_item(rows(1)))
    assert ends.channel.flush_in_pause() is None
    assert ends.numbers == [1]
    ends.channel.send(data_item(rows(2)))
    ends.channel.send(data_item(rows(3)))
    early_s = ends.channel.flush_in_pause()
    while early_s is not None:
        assert 0 < early_s <= 0.001
        time.sleep(early_s)
        early_s = ends.channel.flush_in_pause()
    assert ends.kinds == [ItemKind.DATA, ItemKind.DATA], "merged meanwhile"
    assert ends.numbers == [1, 2, 3]


def test_without_a_timeout_nothing_is_held() -> None:
    ends = Ends(ChannelLimits(1024, 0, 4096))
    ends.channel.send(data_item(rows(1)))
    assert ends.numbers == [1]
    assert not ends.flusher.watched


def test_credit_runs_out_and_comes_back_and_the_sender_hears_of_room() -> None:
    ends = Ends()
    while not ends.channel.is_full:
        ends.channel.send(data_item(rows(*range(100))))
    arrived = len(ends.items)
    rooms = ends.rooms
    ends.channel.send(Item(ItemKind.END_OF_DATA, 1))
    assert len(ends.items) == arrived
    while ends.consume():
        pass
    assert ends.kinds[-1] is ItemKind.END_OF_DATA
    assert ends.rooms > rooms
    assert ends.channel.is_empty
    ends.input.end_read()
    assert ends.ends_read == 1


def test_barriers_do_not_overtake_each_other() -> None:
    ends = Ends(is_local=False)
    ends.channel.send(data_item(rows(1)))
    for checkpoint_id in (1, 2):
        assert len(ends.channel.send_barrier(Barrier(checkpoint_id, 0, BarrierKind.UNALIGNED))) == 1
    ends.channel.flush()
    while ends.deliver():
        pass
    assert [item.value.id for item in ends.items[:2]] == [1, 2]


def test_an_unaligned_barrier_does_not_wait_for_what_is_held() -> None:
    ends = Ends()
    ends.channel.send(data_item(rows(1)))
    assert numbers_of(ends.channel.send_barrier(Barrier(1, 0, BarrierKind.UNALIGNED))) == [1]
    assert ends.kinds == [ItemKind.BARRIER]
    ends.channel.flush()
    assert ends.numbers == [1]


def test_a_prioritised_barrier_becomes_unaligned() -> None:
    ends = Ends(is_local=False)
    ends.channel.send(data_item(rows(1)))
    ends.channel.send_barrier(Barrier(1, 0, BarrierKind.ALIGNED_WITH_TIMEOUT, 10))
    ends.channel.send(data_item(rows(2)))
    assert numbers_of(ends.channel.prioritize(1)) == [1]
    assert ends.channel.prioritize(1) == []
    assert ends.channel.prioritize(9) == []
    assert ends.deliver()
    assert ends.items[0].value == Barrier(1, 0, BarrierKind.UNALIGNED)


def test_a_huge_batch_travels_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "ITEM_LIMIT_BYTES", 1000)
    ends = Ends(ChannelLimits(512, 0, 1 << 20))
    ends.channel.send(data_item(rows(*range(1000))))
    assert ends.numbers == list(range(1000))
    assert max(item.size for item in ends.items) <= 1000


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_a_huge_batch_of_which_every_slice_is_huge_travels_in_few_pieces(is_dictionary: bool) -> None:
    text = pa.array([f"{number}-{'x' * 2000}" for number in range(20_000)], pa.string_view())
    column = pa.DictionaryArray.from_arrays(pa.array(range(20_000)), text.cast("string")) if is_dictionary else text
    whole = data_item(pa.record_batch({"text": column}))
    assert whole.size > channels.ITEM_LIMIT_BYTES
    pieces = list(channels._pieces(whole))
    assert len(pieces) == (1 if is_dictionary else 2)
    assert sum(piece.size for piece in pieces) < 1.1 * whole.size
    assert pa.Table.from_batches([piece.value for piece in pieces]) == pa.table({"text": column})


def test_wrong_schemas_and_too_much_credit_are_noticed() -> None:
    ends = Ends()
    with pytest.raises(EngineError):
        ends.channel.send(data_item(pa.record_batch([["a"]], names=["number"])))
    with pytest.raises(PeerError):
        ends.channel.add_credit(1)
    with pytest.raises(PeerError):
        ends.channel.add_credit(-1)


def test_a_closed_channel_takes_nothing() -> None:
    ends = Ends()
    ends.channel.send(data_item(rows(1)))
    ends.channel.close()
    ends.channel.send(data_item(rows(1)))
    ends.channel.flush()
    assert ends.channel.is_empty
    assert not ends.items


def test_every_type_that_is_put_together_stays_what_it_is() -> None:
    words = pa.array(["a", None, "a word longer than twelve bytes"])
    for array in (
        words,
        words.cast(pa.string_view()),
        pa.array([["a"], None, []]),
        pa.array([["a"], None, []], pa.list_view(pa.string())),
        pa.array([{"x": 1}, None, {"x": None}]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["x", "y"])),
        pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), words]),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 3, pa.binary(16))),
    ):
        batch = pa.record_batch([array], names=["x"])
        ends = Ends()
        channel = LocalChannel(KEY, batch.schema, ends, LIMITS, ends.flusher, may_be_unaligned=True)  # type: ignore[arg-type]
        channel.join(ends, 5)
        for part in (batch.slice(1), batch):
            channel.send(data_item(part))
        channel.flush()
        (item,) = ends.items
        item.value.validate(full=True)
        assert item.value.column(0).to_pylist() == array.slice(1).to_pylist() + array.to_pylist()


def test_dictionaries_are_not_put_together() -> None:
    schema = pa.schema([("word", pa.dictionary(pa.int8(), pa.string()))])
    ends = Ends()
    channel = LocalChannel(KEY, schema, ends, LIMITS, ends.flusher, may_be_unaligned=True)  # type: ignore[arg-type]
    channel.join(ends, 5)
    for word in "ab":
        channel.send(data_item(pa.record_batch([pa.array([word]).dictionary_encode().cast(schema[0].type)], schema)))
    assert [item.value.column(0).to_pylist() for item in ends.items] == [["a"], ["b"]]


def test_both_sides_of_a_local_channel_at_once() -> None:
    ends = Ends(ChannelLimits(512, 10, 2048))
    count = 1000
    end = threading.Event()

    def read() -> None:
        while not end.is_set() or ends.unread:
            if not ends.consume():
                time.sleep(0)

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(count):
        ends.channel.send(data_item(rows(number)))
    ends.channel.send(Item(ItemKind.END_OF_PARTITION))
    deadline = time.monotonic() + 10
    while not ends.channel.is_empty or ends.kinds[-1] is not ItemKind.END_OF_PARTITION:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    end.set()
    thread.join()
    assert ends.numbers == list(range(count))


def test_the_flusher_flushes_in_time_and_sleeps_otherwise() -> None:
    flusher = Flusher()
    try:
        ends = Ends()
        channel = LocalChannel(KEY, SCHEMA, ends, LIMITS, flusher, may_be_unaligned=True)
        channel.join(ends, 5)
        for number in range(3):
            start = time.monotonic()
            channel.send(data_item(rows(number)))
            while len(ends.items) <= number:
                assert time.monotonic() < start + 5
                time.sleep(0.001)
            assert time.monotonic() - start >= 0.009
    finally:
        flusher.close()
    channel.send(data_item(rows(9)))
    flusher.close()

"""The receiving side of a subtask: which channel is read, and what barriers do to the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.runtime.task.task_kit import Port, gate_channel, rows, values

from snapline.config import Checkpoints
from snapline.errors import EngineError
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.protocol.restore.restore_plan import ChannelRestore
from snapline.protocol.snapshot import ChannelPart, StoredObject
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.mailbox import ThreadMailbox
from snapline.runtime.task.input_gate import InputGate, idle_together, make_handler
from snapline.runtime.task.work_pace import WorkPace
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import AbortReason, Barrier, BarrierKind, Partitioning

UNALIGNED, WITH_TIMEOUT = BarrierKind.UNALIGNED, BarrierKind.ALIGNED_WITH_TIMEOUT


class Snapshots:
    """Keeps what the gate captures."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.captured: list[tuple[int, int, list[int]]] = []
        self.finished: list[int] = []

    def start(self, barrier: Barrier) -> None:
        self.started.append(barrier.id)

    def capture_input(
        self, checkpoint_id: int, edge: str, upstream: int, downstream: int, batches: list[pa.RecordBatch]
    ) -> None:
        self.captured += [(checkpoint_id, upstream, values(batch)) for batch in batches]

    def finish_inputs(self, checkpoint_id: int, metrics: b.AlignmentMetrics) -> None:
        self.finished.append(checkpoint_id)


class Setup:
    def __init__(
        self, channels: int = 2, *, partitioning: Partitioning = Partitioning.REBALANCE, **settings: Any
    ) -> None:
        self.now_ms = 0
        self.ports = [Port() for _ in range(channels)]
        self.snapshots = Snapshots()
        self.fed: list[s.SubtaskEvent] = []
        self.mailbox = ThreadMailbox(lambda: self.now_ms)
        given: Any = self.snapshots
        self.pace = WorkPace(lambda: 0.0, 700, slices=bool(settings.get("unaligned")))
        self.gate = InputGate(
            [gate_channel(number, port, partitioning) for number, port in enumerate(self.ports)],
            make_handler(Checkpoints(**settings), channels),
            given,
            self.mailbox,
            EffectQueue(),
            self.fed.append,
            lambda: self.now_ms,
            self.pace,
        )

    def arrive(self, channel: int, *items: Item) -> None:
        for item in items:
            self.mailbox.arrive(channel, item)
        self.gate.receive()

    def read_mail(self) -> None:
        while due := self.mailbox.take_mail():
            for mail in due:
                mail()

    def take(self, **options: Any) -> list[Any]:
        """All that may be read, barriers handled: rows of data, kinds of the rest."""
        taken: list[Any] = []
        while True:
            if self.gate.read_urgent():
                continue
            found = self.gate.take(has_room=options.get("has_room", True), may_end=options.get("may_end", True))
            if found is None:
                return taken
            channel, item = found
            taken.append((channel.index, values(item.value) if item.kind.is_data else item.kind.name))
            if item.kind is ItemKind.BARRIER:
                self.gate.handle(b.BarrierReceived(channel.index, item.value))


def barrier(checkpoint_id: int, kind: BarrierKind = BarrierKind.ALIGNED, timeout_ms: int | None = None) -> Item:
    return Item(ItemKind.BARRIER, Barrier(checkpoint_id, 0, kind, timeout_ms))


def data(*numbers: int) -> Item:
    return data_item(rows(*numbers))


def test_channels_are_read_in_turn_and_room_is_given_back_when_data_is_taken() -> None:
    setup = Setup()
    items = [data(1), data(2)]
    setup.arrive(0, *items)
    setup.arrive(1, data(10), data(20))
    assert setup.gate.queued_bytes == 4 * items[0].size
    assert setup.ports[0].consumed_bytes == 0
    assert setup.take() == [(0, [1]), (1, [10]), (0, [2]), (1, [20])]
    assert setup.gate.queued_bytes == 0
    assert setup.ports[0].consumed_bytes == 2 * items[0].size


def test_without_room_nothing_is_taken_that_operators_may_answer() -> None:
    setup = Setup()
    setup.arrive(0, data(1))
    setup.arrive(1, Item(ItemKind.LATENCY, 5), Item(ItemKind.WATERMARK, 5))
    assert setup.take(has_room=False) == [(1, "LATENCY")]
    assert sorted(setup.take(), key=str) == [(0, [1]), (1, "WATERMARK")]


def test_an_end_of_data_may_be_held_back_while_others_are_read() -> None:
    setup = Setup()
    setup.arrive(0, Item(ItemKind.END_OF_DATA, 0))
    setup.arrive(1, data(1))
    assert setup.take(may_end=False) == [(1, [1])]
    assert setup.take() == [(0, "END_OF_DATA")]


def test_a_channel_whose_barrier_was_read_waits_for_the_others() -> None:
    setup = Setup()
    setup.arrive(0, barrier(7), data(1))
    setup.arrive(1, data(2))
    assert setup.take() == [(0, "BARRIER"), (1, [2])]
    setup.arrive(1, barrier(7), data(3))
    assert sorted(setup.take(), key=str) == sorted([(1, "BARRIER"), (0, [1]), (1, [3])], key=str)
    assert [type(event) for event in setup.fed] == [b.CheckpointTriggered]
    assert setup.snapshots.finished == [7]


def test_an_unaligned_barrier_is_read_first_and_captures_what_it_overtakes() -> None:
    setup = Setup(unaligned=True)
    setup.arrive(0, data(1))
    setup.arrive(1, data(2), barrier(7, UNALIGNED), data(3))
    assert setup.gate.read_urgent()
    assert setup.snapshots.started == [7]
    assert setup.snapshots.captured == [(7, 0, [1]), (7, 1, [2])], "what came behind the barrier is not part of it"
    setup.arrive(0, data(4))
    assert setup.snapshots.captured[-1] == (7, 0, [4]), "its barrier has not come yet"
    setup.arrive(0, barrier(7, UNALIGNED), data(5))
    assert setup.gate.read_urgent()
    assert setup.snapshots.finished == [7]
    assert (7, 0, [5]) not in setup.snapshots.captured


def test_a_barrier_that_waits_too_long_overtakes() -> None:
    setup = Setup(1, unaligned=True, aligned_timeout="1s")
    setup.arrive(0, data(1), barrier(7, WITH_TIMEOUT, 1000))
    setup.read_mail()
    assert not setup.gate.read_urgent()
    setup.now_ms = 1001
    setup.read_mail()
    assert setup.gate.read_urgent()
    assert setup.snapshots.captured == [(7, 0, [1])]
    assert setup.take() == [(0, [1])], "it was processed all the same"


def test_a_barrier_that_was_read_in_time_sets_no_timer() -> None:
    setup = Setup(1, unaligned=True, aligned_timeout="1s")
    setup.arrive(0, data(1), barrier(7, WITH_TIMEOUT, 1000))
    assert setup.take() == [(0, [1]), (0, "BARRIER")]
    setup.read_mail()
    setup.now_ms = 5000
    setup.read_mail()
    assert setup.snapshots.captured == []


def test_replayed_rows_of_others_are_dropped_and_their_room_is_given_back() -> None:
    setup = Setup(1, partitioning=Partitioning.HASH)
    numbers = list(range(20))
    item = data_item(rows(*numbers), filtered=True)
    setup.arrive(0, item)
    ((_, mine),) = setup.take()
    assert 0 < len(mine) < 20
    assert setup.ports[0].consumed_bytes == item.size, "what was sent counts, not what is left of it"
    others = data_item(rows(*[number for number in numbers if number not in mine]), filtered=True)
    setup.arrive(0, others)
    assert setup.take() == []
    assert setup.ports[0].consumed_bytes == item.size + others.size


def test_the_last_partition_that_ends_is_told_of() -> None:
    setup = Setup()
    for number, channel in enumerate(setup.gate.channels):
        assert setup.fed == []
        setup.gate.partition_ended(channel)
        assert len(setup.gate.open_channels) == 1 - number
    assert setup.fed == [s.PartitionsEnded()]


def test_a_cancel_marker_ends_the_alignment() -> None:
    setup = Setup()
    setup.arrive(0, barrier(7), data(1))
    assert setup.take() == [(0, "BARRIER")]
    setup.gate.handle(b.CancelMarkerReceived(1, 7))
    assert setup.fed == [b.HandlerAborted(7, AbortReason.CANCELLED)]
    assert setup.take() == [(0, [1])]


def test_restored_data_names_its_input_and_is_filtered_if_others_have_it_too() -> None:
    setup = Setup(1, partitioning=Partitioning.HASH)
    numbers = list(range(20))
    part = ChannelPart("in", 0, 0, StoredObject("x", 1))
    ((index, all_rows),) = setup.gate.restored(ChannelRestore(part, filter=False), [rows(*numbers)])
    assert (index, values(all_rows)) == (0, numbers)
    ((_, mine),) = setup.gate.restored(ChannelRestore(part, filter=True), [rows(*numbers)])
    assert 0 < mine.num_rows < 20
    none_of_mine = [number for number in numbers if number not in values(mine)]
    assert list(setup.gate.restored(ChannelRestore(part, filter=True), [rows(*none_of_mine)])) == []


def test_capturing_for_a_checkpoint_nobody_has_heard_of_is_a_defect() -> None:
    setup = Setup(unaligned=True)
    with pytest.raises(EngineError, match="checkpoint 9"):
        setup.gate._carry_out(b.StartCapture(9))


def test_the_settings_choose_the_handler() -> None:
    assert isinstance(make_handler(Checkpoints(mode="at_least_once"), 2), TrackingHandler)
    assert isinstance(make_handler(Checkpoints(), 2), AligningHandler)
    assert isinstance(make_handler(Checkpoints(unaligned=True), 2), AligningHandler)


def test_small_batches_that_wait_are_taken_together() -> None:
    setup = Setup(1)
    setup.pace.note(1, 0.001)
    items = [data(1), data(2, 3), data(4)]
    setup.arrive(0, *items)
    assert setup.take() == [(0, [1, 2, 3]), (0, [4])], "256 bytes of each batch count, and 700 may be merged"
    assert setup.ports[0].consumed_bytes == sum(item.size for item in items)
    assert setup.gate.queued_bytes == 0


def test_marks_between_batches_come_behind_what_is_taken_together() -> None:
    setup = Setup(1)
    setup.pace.note(1, 0.001)
    marks = [Item(ItemKind.WATERMARK, 5), Item(ItemKind.LATENCY, 1), Item(ItemKind.WATERMARK, 6)]
    setup.arrive(0, data(1), *marks, data(2), Item(ItemKind.BARRIER, Barrier(7, 0, BarrierKind.ALIGNED)), data(3))
    assert setup.take() == [(0, [1, 2]), (0, "LATENCY"), (0, "WATERMARK"), (0, "BARRIER"), (0, [3])]


def test_slow_rows_are_not_merged() -> None:
    setup = Setup(1)
    setup.pace.note(1, 0.02)
    setup.arrive(0, data(1), data(2))
    assert setup.take() == [(0, [1]), (0, [2])]


def test_a_batch_that_takes_long_is_cut_and_a_barrier_overtakes_the_rest_of_it() -> None:
    setup = Setup(1, unaligned=True)
    setup.pace.note(1, 0.02)
    item = data(*range(5))
    setup.arrive(0, item)
    found = setup.gate.take(has_room=True)
    assert found is not None
    assert values(found[1].value) == [0, 1]
    assert setup.gate.queued_bytes == item.size - found[1].size
    setup.arrive(0, barrier(7, UNALIGNED), data(9))
    assert setup.gate.read_urgent()
    assert setup.snapshots.captured == [(7, 0, [2, 3, 4])]
    assert setup.take() == [(0, [2, 3]), (0, [4]), (0, [9])]
    assert setup.ports[0].consumed_bytes == item.size + data(9).size


def test_a_batch_stays_whole_where_barriers_wait_behind_it_anyway() -> None:
    setup = Setup(1)
    setup.pace.note(1, 0.02)
    setup.arrive(0, data(*range(5)))
    assert setup.take() == [(0, [0, 1, 2, 3, 4])]


def test_channels_of_an_edge_are_idle_together_if_their_subtasks_hear_the_same() -> None:
    channels = [gate_channel(number, Port()) for number in range(3)]
    (source,) = {channel.edge.source for channel in channels}
    assert idle_together(channels, {source}) == [[0, 1, 2]]
    assert idle_together(channels, {"another"}) == []

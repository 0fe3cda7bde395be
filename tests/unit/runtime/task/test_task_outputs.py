"""The sending side of a subtask."""

from __future__ import annotations

import pytest
from tests.unit.runtime.task.task_kit import Output, output_edge, rows

from snapline.errors import EngineError
from snapline.protocol.restore.restore_plan import ChannelRestore
from snapline.protocol.snapshot import ChannelPart, StoredObject
from snapline.runtime.task.task_meter import TaskMeter
from snapline.runtime.task.task_outputs import TaskOutputs, end_partitions
from snapline.runtime.wire.channel_items import Item, ItemKind

STORED = StoredObject("x", 1)


def make(*edges: tuple[list[Output], str]) -> tuple[TaskOutputs, TaskMeter]:
    meter = TaskMeter(lambda: 0.0)
    planned = [output_edge(channels, f"edge{number}", output) for number, (channels, output) in enumerate(edges)]
    return TaskOutputs(planned, meter), meter


def restore(edge: str, *targets: int, is_filtered: bool) -> ChannelRestore:
    return ChannelRestore(ChannelPart(edge, 0, 0, STORED), is_filtered, targets)


def test_rows_go_along_every_edge_of_their_output_and_are_counted_for_each() -> None:
    first, second, side = Output(), Output(), Output()
    outputs, meter = make(([first], ""), ([second], ""), ([side], "late"))
    outputs.emit(rows(1, 2))
    outputs.emit(rows(3), "late")
    assert [channel.sent() for channel in (first, second, side)] == [[[1, 2]], [[1, 2]], [[3]]]
    assert meter.rows_out == 5
    assert meter.bytes_out == sum(item.size for channel in (first, second, side) for item in channel.items)


def test_rows_of_an_output_nobody_reads_are_dropped_and_empty_batches_go_nowhere() -> None:
    channel = Output()
    outputs, meter = make(([channel], ""))
    outputs.emit(rows(1), "late")
    outputs.emit(rows())
    assert (channel.items, meter.rows_out) == ([], 0)


def test_there_is_room_only_if_no_channel_is_full() -> None:
    first, second = Output(), Output(1)
    outputs, _ = make(([first, second], ""))
    assert outputs.has_room
    second.is_full = True
    assert not outputs.has_room


def test_everything_but_data_goes_to_everyone_and_a_latency_mark_to_one_of_each_edge() -> None:
    first, second, other = Output(), Output(1), Output()
    outputs, _ = make(([first, second], ""), ([other], "late"))
    outputs.send(Item(ItemKind.WATERMARK, 7))
    outputs.send_latency_mark(5)
    assert [channel.sent()[0] for channel in outputs.channels] == ["WATERMARK"] * 3  # type: ignore[attr-defined]
    marks = [channel.sent().count("LATENCY") for channel in (first, second, other)]
    assert (sum(marks[:2]), marks[2]) == (1, 1)


def test_restored_data_goes_to_its_targets_and_is_awaited_until_it_has_left() -> None:
    first, second = Output(), Output(1)
    outputs, _ = make(([first, second], ""))
    assert not outputs.is_sending_restored()
    outputs.restore(restore("edge0", 0, 1, is_filtered=True), [rows(1)])
    assert [item.kind for item in first.items + second.items] == [ItemKind.FILTERED_DATA] * 2
    second.is_empty = False
    assert outputs.is_sending_restored()
    second.is_empty = True
    assert not outputs.is_sending_restored()
    second.is_empty = False
    assert not outputs.is_sending_restored(), "what is queued now is new"


def test_nothing_restored_is_nothing_to_wait_for() -> None:
    channel = Output()
    channel.is_empty = False
    outputs, _ = make(([channel], ""))
    outputs.restore(restore("edge0", 0, is_filtered=False), [])
    assert not outputs.is_sending_restored()


def test_a_subtask_that_had_finished_ends_its_partitions() -> None:
    channels = [Output(), Output(1)]
    end_partitions([output_edge(channels)])
    assert [channel.sent() for channel in channels] == [["END_OF_DATA", "END_OF_PARTITION"]] * 2
    assert channels[0].items[0].value == 0, "any checkpoint may be the last here"


def test_restored_data_of_an_edge_that_is_not_there_is_a_defect() -> None:
    outputs, _ = make(([Output()], ""))
    with pytest.raises((EngineError, StopIteration)):
        outputs.restore(restore("gone", 0, is_filtered=False), [rows(1)])

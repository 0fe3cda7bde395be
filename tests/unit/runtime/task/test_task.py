"""One subtask: the order of its turns, its part in checkpoints, and each of its ends."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.runtime.task.task_kit import ME, Passing, TaskBench, rows

from snapline.config import Checkpoints
from snapline.contracts.operator import OperatorContext
from snapline.errors import ConfigurationError, DamagedError, RestoreError, StorageError
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    Decline,
    TriggerCheckpoint,
)
from snapline.protocol.restore.restore_plan import ChannelRestore, SubtaskRestore
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.types import Barrier, BarrierKind, FailureReason, TaskStatus

LAST = 9223372036854775807


def started(**options: Any) -> TaskBench:
    bench = TaskBench(**options)
    bench.start()
    assert bench.taken_log() == ["RUNNING"]
    return bench


# Data.


def test_rows_go_through_the_operators_and_their_room_is_given_back() -> None:
    bench = started()
    item = data_item(rows(1, 2))
    bench.arrive(item)
    assert bench.log == ["op process [1, 2] of 0", "send DATA"]
    assert bench.outputs[0].sent() == [[1, 2]]
    assert bench.ports[0].consumed_bytes == item.size
    figures = bench.task.metrics()
    assert (figures.rows_in, figures.rows_out) == (2, 2)


def test_channels_are_read_in_turn() -> None:
    bench = started(inputs=2)
    for number in (1, 2):
        bench.task.arrive(0, data_item(rows(number)))
        bench.task.arrive(1, data_item(rows(10 * number)))
    bench.run()
    assert bench.outputs[0].sent() == [[1], [10, 20], [2]], "what waits in one is taken together"


def test_mail_that_never_ends_does_not_keep_data_waiting() -> None:
    bench = started()

    def mail() -> None:
        if not bench.outputs[0].items:
            bench.task.mailbox.post(mail)

    bench.task.mailbox.post(mail)
    bench.data(1)
    assert bench.outputs[0].sent() == [[1]]


def test_without_room_only_what_makes_no_output_is_read() -> None:
    bench = started(inputs=2)
    bench.outputs[0].is_full = True
    bench.data(1)
    bench.arrive(Item(ItemKind.CANCEL, 5), channel=1)
    assert bench.outputs[0].sent() == ["CANCEL"]
    bench.outputs[0].is_full = False
    bench.task.room_changed()
    bench.run()
    assert bench.outputs[0].sent() == ["CANCEL", [1]]


def test_an_operator_that_is_full_holds_back_rows_until_mail_ends_that() -> None:
    bench = started()
    bench.operator.is_full_now = True
    bench.data(1)
    assert bench.outputs[0].sent() == []

    def emptied() -> None:
        bench.operator.is_full_now = False

    bench.operator.context.post(emptied)
    bench.run()
    assert bench.outputs[0].sent() == [[1]]


def test_mail_comes_ahead_of_rows() -> None:
    bench = started()
    bench.task.arrive(0, data_item(rows(1)))
    bench.operator.context.post(lambda: bench.log.append("mail"))
    bench.run()
    assert bench.log[0] == "mail"


def test_the_least_watermark_of_all_channels_is_passed_on_behind_the_operators() -> None:
    bench = started(inputs=2)
    bench.arrive(Item(ItemKind.WATERMARK, 7), channel=0)
    assert bench.log == []
    bench.arrive(Item(ItemKind.WATERMARK, 5), channel=1)
    assert bench.log == ["op watermark 5", "send WATERMARK"]
    assert bench.outputs[0].items[-1].value == 5
    assert bench.task.metrics().watermark_ms == 5


# Checkpoints.


def test_a_barrier_leaves_ahead_of_the_snapshot_which_is_acknowledged_once_written() -> None:
    bench = started()
    bench.data(1)
    bench.taken_log()
    bench.barrier(7, location="chk-7")
    assert bench.taken_log() == ["op prepare 7", "send BARRIER", "op snapshot 7", "Acknowledge 7"]
    (answer,) = bench.reporter.answers
    assert isinstance(answer, Acknowledge)
    assert (answer.execution, set(answer.state)) == (ME, {"op0"})


def test_rows_behind_a_barrier_wait_until_it_has_come_on_all_channels() -> None:
    bench = started(inputs=2)
    bench.barrier(7, channel=0)
    bench.data(1, channel=0)
    bench.data(2, channel=1)
    assert bench.outputs[0].sent() == [[2]]
    bench.barrier(7, channel=1)
    assert bench.outputs[0].sent() == [[2], "BARRIER", [1]]


def test_an_unaligned_barrier_overtakes_and_what_it_overtakes_is_captured() -> None:
    bench = started(inputs=2, checkpoints=Checkpoints(unaligned=True))
    bench.operator.is_full_now = True
    bench.data(1, channel=1)
    bench.barrier(7, channel=0, kind=BarrierKind.UNALIGNED, location="chk-7")
    assert bench.outputs[0].sent() == ["BARRIER"]
    assert bench.reporter.answers == [], "more may come on the other channel"
    bench.data(2, channel=1)
    bench.barrier(7, channel=1, kind=BarrierKind.UNALIGNED, location="chk-7")
    (answer,) = bench.reporter.answers
    assert isinstance(answer, Acknowledge)
    assert [(part.edge, part.upstream) for part in answer.state["op0"].inputs] == [("in", 1)]


def test_operators_hear_how_a_checkpoint_ended_and_of_no_other_execution() -> None:
    bench = started()
    bench.barrier(7)
    bench.taken_log()
    bench.task.notify(CheckpointCompleted(ME._replace(attempt=2), 7))
    bench.run()
    assert bench.log == []
    bench.task.notify(CheckpointCompleted(ME, 7))
    bench.task.notify(CheckpointAborted(ME, 8))
    bench.run()
    assert bench.log == ["op completed 7", "op aborted 8"]


def test_a_cancel_marker_is_declined_and_passed_on() -> None:
    bench = started()
    bench.arrive(Item(ItemKind.CANCEL, 7))
    assert bench.log == ["Decline 7", "send CANCEL"]


def test_a_trigger_for_a_task_with_open_inputs_stands_for_the_missing_barriers() -> None:
    bench = started(inputs=2)
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(7, 0)))
    bench.run()
    assert "Acknowledge 7" in bench.log
    bench.taken_log()
    bench.data(1)
    assert bench.log == ["op process [1] of 0", "send DATA"], "its channels are not blocked"


# Restored data.


def test_in_flight_data_is_processed_before_the_task_runs_and_anything_new_is_read() -> None:
    first = TaskBench(inputs=1, checkpoints=Checkpoints(unaligned=True))
    first.start()
    first.operator.is_full_now = True
    first.data(1)
    first.barrier(7, kind=BarrierKind.UNALIGNED, location="chk-7")
    (answer,) = first.reporter.answers
    assert isinstance(answer, Acknowledge)
    part = ChannelRestore(answer.state["op0"].inputs[0], filter=False)
    bench = TaskBench(restore={"op0": SubtaskRestore(inputs=(part,))}, restored_id=7, objects=first.objects)
    bench.task.arrive(0, data_item(rows(2)))
    bench.start()
    assert bench.log == ["op process [1] of 0", "send DATA", "RUNNING", "op process [2] of 0", "send DATA"]


# Ends.


def test_a_task_leaves_after_its_last_checkpoint_when_nobody_needs_it() -> None:
    bench = started()
    bench.end()
    assert bench.taken_log() == [f"op watermark {LAST}", "send WATERMARK", "op finish", "send END_OF_DATA"]
    assert bench.ports[0].ends_read == 1
    bench.read_ends()
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(7, 0)))
    bench.run()
    assert bench.taken_log() == ["op prepare 7", "send BARRIER", "op snapshot 7", "Acknowledge 7"]
    bench.task.notify(CheckpointCompleted(ME, 7))
    bench.run()
    assert bench.taken_log() == ["op completed 7", "op close", "send END_OF_PARTITION", "FINISHED"]
    assert bench.task.has_finished
    assert not bench.task.is_alive


def test_without_a_last_checkpoint_it_leaves_when_all_it_sent_was_read() -> None:
    bench = started(takes_last_checkpoint=False)
    bench.end()
    assert "FINISHED" not in bench.log
    bench.read_ends()
    assert bench.log[-2:] == ["send END_OF_PARTITION", "FINISHED"]


def test_the_last_end_of_data_waits_for_rows_that_are_elsewhere() -> None:
    bench = started(inputs=2, takes_last_checkpoint=False)
    bench.operator.is_busy_now = True
    bench.end(channel=0)
    bench.end(channel=1)
    assert [port.ends_read for port in bench.ports] == [1, 0], "barriers may come behind the first one"

    def done() -> None:
        bench.operator.is_busy_now = False

    bench.operator.context.post(done)
    bench.run()
    assert [port.ends_read for port in bench.ports] == [1, 1]
    assert "op finish" in bench.log


def test_it_stays_as_long_as_an_operator_commits() -> None:
    bench = started(outputs=0, takes_last_checkpoint=False)
    bench.operator.is_committing = True
    bench.end()
    assert bench.task.is_alive

    def committed() -> None:
        bench.operator.is_committing = False

    bench.operator.context.post(committed)
    bench.run()
    assert bench.log[-2:] == ["op close", "FINISHED"]


def test_a_trigger_after_the_end_is_declined() -> None:
    bench = started(outputs=0, takes_last_checkpoint=False)
    bench.end()
    bench.taken_log()
    bench.task.trigger(TriggerCheckpoint(ME, Barrier(7, 0)))
    assert bench.log == ["Decline 7"]
    (answer,) = bench.reporter.answers
    assert isinstance(answer, Decline)
    assert answer.reason is FailureReason.CHECKPOINT_DECLINED_TASK_CLOSING


def test_a_cancelled_task_closes_its_operators_and_says_nothing() -> None:
    bench = started()
    bench.task.arrive(0, data_item(rows(1)))
    bench.task.cancel()
    bench.run()
    assert bench.log == ["op close"]
    assert bench.task.status is TaskStatus.CANCELED


@pytest.mark.parametrize(
    ("error", "is_final"),
    [
        (ValueError("boom"), False),
        (StorageError("away"), False),
        (RestoreError("no fit"), True),
        (ConfigurationError("no such"), True),
        (DamagedError("checksum mismatch"), True),
    ],
)
def test_an_error_at_the_start_is_reported_and_some_are_final(error: Exception, is_final: bool) -> None:
    class Failing(Passing):
        def open(self, context: OperatorContext) -> None:
            raise error

    bench = TaskBench([Failing([])])
    bench.start()
    assert bench.log == ["FAILED"]
    ((message, trace, final),) = bench.reporter.errors
    assert str(error) in message
    assert "op0" in message
    assert "Traceback" in trace
    assert final is is_final
    assert ("restore it from a backup" in message) is isinstance(error, DamagedError)
    (identity,) = bench.reporter.identities
    expected = None if isinstance(error, StorageError) and not is_final else type(error).__name__
    assert (None if identity is None else identity.exception.rpartition(".")[2]) == expected
    assert identity is None or identity.operator == "op0"


def test_an_error_of_an_operator_ends_the_task_and_what_follows_is_never_sent() -> None:
    bench = started()
    bench.operator.fails_at = "process"
    bench.data(1)
    assert bench.log == ["op process [1] of 0", "op close", "FAILED"]
    assert bench.outputs[0].sent() == []
    bench.data(2)
    assert bench.log[-1] == "FAILED"


def test_an_error_within_a_snapshot_acknowledges_nothing() -> None:
    bench = started()
    bench.operator.fails_at = "snapshot"
    bench.barrier(7)
    assert bench.log == ["op prepare 7", "send BARRIER", "op snapshot 7", "op close", "FAILED"]
    assert bench.reporter.answers == []


def test_operators_are_woken_at_their_time_but_not_while_outputs_are_full() -> None:
    class Waking(Passing):
        at_ms: int | None = 50

        def next_wakeup_ms(self) -> int | None:
            return self.at_ms

        def wakeup(self, now_ms: int) -> None:
            self.log.append(f"wakeup at {now_ms}")
            self.at_ms = None
            self.context.emit(pa.RecordBatch.from_pylist([{"x": 1}], schema=rows().schema))

    log: list[Any] = []
    bench = TaskBench([Waking(log)])
    bench.outputs[0].is_full = True
    bench.task.start()
    bench.advance(75)
    assert log == []
    bench.outputs[0].is_full = False
    bench.task.room_changed()
    bench.run()
    assert len(log) == 1
    assert bench.outputs[0].sent() == [[1]]

"""Events between operators and their coordinators: on the right side of every snapshot of the subtask."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtime.task.task_kit import ME, Passing, TaskBench

from snapline.contracts.operator import OperatorContext
from snapline.contracts.operator_coordinator import MAX_EVENT_BYTES
from snapline.errors import ConfigurationError, UserCodeError
from snapline.protocol.messages import EventToCoordinator


class Talking(Passing):
    """Reports each call to its coordinator, and notes what that says."""

    def handle_event(self, event: Any) -> None:
        self._note(f"event {event}")

    def process(self, batch: Any, input_index: int) -> None:
        super().process(batch, input_index)
        self.context.send_event("row")

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        super().prepare_snapshot(checkpoint_id)
        self.context.send_event("prepared")

    def snapshot(self, checkpoint_id: int) -> None:
        super().snapshot(checkpoint_id)
        self.context.send_event("taken")


def talking(**options: Any) -> TaskBench:
    log: list[Any] = []
    bench = TaskBench([Talking(log)], **options)
    bench.log = bench.reporter.log = log
    for output in bench.outputs:
        output._log = log
    return bench


def test_events_say_which_snapshot_they_come_after() -> None:
    bench = talking()
    bench.start()
    bench.data(1)
    bench.barrier(4)
    bench.data(2)
    assert bench.reporter.events == [
        EventToCoordinator(ME, "op0", -1, b"\xa3row"),
        EventToCoordinator(ME, "op0", -1, b"\xa8prepared"),
        EventToCoordinator(ME, "op0", -1, b"\xa5taken"),
        EventToCoordinator(ME, "op0", 4, b"\xa3row"),
    ]


def test_an_event_that_has_arrived_is_handled_before_the_snapshot_even_if_the_barrier_overtakes_mail() -> None:
    bench = talking()
    bench.start()
    bench.taken_log()
    bench.task.mailbox.post = lambda call: None  # type: ignore[method-assign]  # the barrier is quicker
    bench.task.coordinator_event("op0", "before")
    bench.barrier(4)
    log = bench.taken_log()
    assert log.index("op event before") < log.index("op prepare 4") < log.index("send BARRIER")


def test_events_arrive_in_order_and_none_after_the_end_of_the_input() -> None:
    bench = talking()
    bench.start()
    for number in range(3):
        bench.task.coordinator_event("op0", number)
    bench.run()
    bench.taken_log()
    bench.end()
    bench.task.coordinator_event("op0", "late")
    bench.run()
    assert not [entry for entry in bench.taken_log() if entry.startswith("op event")]


def test_what_is_no_plain_data_or_too_large_fails_the_task_with_the_way_out() -> None:
    for event, problem in ((object(), "no plain data"), (b"x" * (MAX_EVENT_BYTES + 1), "at most 16777216 may be sent")):
        bench = talking()
        bench.start()
        with pytest.raises(UserCodeError, match=f"an event of the operator 'op0' .*{problem}"):
            bench.task._coordinators.send("op0", event, is_repeated=False)


def test_an_operator_without_a_coordinator_cannot_send() -> None:
    send: Any = OperatorContext.__dataclass_fields__["send_event"].default
    with pytest.raises(ConfigurationError, match=r"return one from make_coordinator\(\)"):
        send("x")

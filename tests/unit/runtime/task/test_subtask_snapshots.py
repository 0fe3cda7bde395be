"""The checkpoints a subtask is taking: when each is written, reported, and given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.runtime.runtime_bench import Bench
from tests.unit.runtime.task.task_kit import ME, Output, rows

from snapline.errors import StorageError
from snapline.protocol.barriers.barrier_events import AlignmentMetrics
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.task.subtask_snapshots import SubtaskSnapshots
from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.state.channel_state import ChannelStates
from snapline.state.operator_state import OperatorStates
from snapline.state.subtask_states import PendingSnapshot, SubtaskStates
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.objects.object_store import Bytes
from snapline.storage.snapshot_writer import WriteOptions
from snapline.types import Barrier, BarrierKind

METRICS = AlignmentMetrics(0, 0, 0)
DIRECTORY = "memory://snapshots/chk-7"


class Objects(MemoryObjects):
    """Refuses writes while it is full."""

    is_full = False

    def write(self, path: str, data: Bytes) -> None:
        if self.is_full:
            raise StorageError("no room")
        super().write(path, data)

    def create(self, path: str, data: Bytes) -> bool:
        if self.is_full:
            raise StorageError("no room")
        return super().create(path, data)


class Setup(Bench):
    def __init__(self, outputs: int = 1, *, is_synchronous: bool = False) -> None:
        super().__init__()
        self.objects = Objects()
        self.outputs = [Output(number) for number in range(outputs)]
        self.fed: list[Any] = []
        self.mail: list[Any] = []
        self.states = SubtaskStates(OperatorStates("op", 0))
        self.list = self.states.operator.list_state("x", bytes)
        self.snapshots = SubtaskSnapshots(
            ["op"],
            SubtaskStorage(self.objects, ME, None, WriteOptions(inline_bytes=0), None),
            self.threads.executor(1, "state"),
            ChannelStates(self.threads.executor(1, "channels")),
            self.fed.append,
            self.mail.append,
            self.scheduler.time_s,
            is_synchronous=is_synchronous,
        )

    @property
    def channels(self) -> Any:
        return [("out", output) for output in self.outputs]

    def pending(self) -> dict[str, PendingSnapshot]:
        self.list.set([b"state"])
        return {"op": self.states.snapshot()}

    def take(self, barrier: Barrier, *, has_open_inputs: bool = False) -> None:
        self.snapshots.take(barrier, self.pending(), has_open_inputs=has_open_inputs, sync_ms=2)
        self.snapshots.write(barrier.id)

    def settle(self) -> None:
        """Let the writing come to its end, and read the mail."""
        while True:
            self.run()
            if not self.mail:
                return
            self.mail.pop(0)()

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.fed]

    def stored(self) -> list[str]:
        return [info.path for info in self.objects.list("memory://snapshots")]


def barrier(kind: BarrierKind = BarrierKind.ALIGNED, checkpoint_id: int = 7) -> Barrier:
    timeout_ms = 100 if kind is BarrierKind.ALIGNED_WITH_TIMEOUT else None
    return Barrier(checkpoint_id, 0, kind, timeout_ms, location=DIRECTORY)


def test_state_is_reported_when_it_is_written_and_not_before() -> None:
    setup = Setup()
    assert not setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    assert setup.kinds() == ["SynchronousPartFinished"]
    setup.settle()
    finished = setup.fed[-1]
    assert isinstance(finished, s.AsynchronousPartFinished)
    (stored,) = finished.state["op"].objects()
    assert setup.stored() == [stored.path]
    assert finished.checkpointed_bytes == finished.state_bytes > 0


def test_time_in_which_the_task_is_inside_a_call_is_no_time_of_writing() -> None:
    setup = Setup()
    setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    setup.run(lambda: bool(setup.mail))
    written_s = setup.scheduler.time_s()
    setup.advance(5_000)
    setup.settle()
    finished = setup.fed[-1]
    assert isinstance(finished, s.AsynchronousPartFinished)
    assert finished.duration_ms <= written_s * 1000
    assert setup.scheduler.time_s() >= written_s + 5


def test_state_that_would_not_fit_the_message_to_the_driver_fails_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = Setup()
    kept_in_driver = replace(barrier(), location=None)
    monkeypatch.setattr("snapline.runtime.task.subtask_snapshots.SUBTASK_INLINE_BYTES", 10)
    setup.snapshots.broadcast(kept_in_driver, setup.channels)
    setup.take(kept_in_driver)
    setup.settle()
    failed = setup.fed[-1]
    assert isinstance(failed, s.AsynchronousPartFailed)
    assert "bytes to the driver, most of them of 'op'" in failed.error


def test_written_state_waits_for_inputs_that_are_still_captured() -> None:
    setup = Setup()
    unaligned = barrier(BarrierKind.UNALIGNED)
    assert setup.snapshots.broadcast(unaligned, setup.channels)
    setup.take(unaligned, has_open_inputs=True)
    setup.snapshots.capture_input(7, "in", 1, 0, [rows(1, 2)])
    setup.snapshots.finish_outputs(7)
    setup.settle()
    assert "AsynchronousPartFinished" not in setup.kinds()
    setup.snapshots.finish_inputs(7, METRICS)
    setup.settle()
    finished = setup.fed[-1]
    assert isinstance(finished, s.AsynchronousPartFinished)
    assert [(part.edge, part.upstream) for part in finished.state["op"].inputs] == [("in", 1)]
    assert [event.persisted_bytes for event in setup.fed if isinstance(event, s.InputsFinished)] == [16]


def test_what_an_unaligned_barrier_overtakes_in_an_output_is_captured() -> None:
    setup = Setup(2)
    setup.outputs[1].overtaken = [rows(1, 2)]
    unaligned = barrier(BarrierKind.UNALIGNED)
    setup.snapshots.broadcast(unaligned, setup.channels)
    setup.take(unaligned)
    setup.snapshots.finish_outputs(7)
    setup.settle()
    finished = setup.fed[-1]
    assert isinstance(finished, s.AsynchronousPartFinished)
    assert [(part.edge, part.downstream) for part in finished.state["op"].outputs] == [("out", 1)]
    assert s.OutputsFinished(7, 16) in setup.fed


def test_outputs_with_a_timeout_are_done_when_the_barrier_has_left_each_of_them() -> None:
    setup = Setup(2)
    assert not setup.snapshots.broadcast(barrier(BarrierKind.ALIGNED_WITH_TIMEOUT), setup.channels)
    first, second = (channel for _, channel in setup.channels)
    setup.snapshots.barrier_left(7, first)
    setup.snapshots.barrier_left(7, first)
    assert setup.fed == []
    setup.snapshots.barrier_left(7, second)
    assert setup.fed == [s.OutputsFinished(7, 0)]


def test_after_the_timeout_barriers_overtake_only_where_they_still_wait() -> None:
    setup = Setup(2)
    setup.snapshots.broadcast(barrier(BarrierKind.ALIGNED_WITH_TIMEOUT), setup.channels)
    setup.outputs[1].overtaken = [rows(1)]
    setup.snapshots.barrier_left(7, setup.channels[0][1])
    setup.snapshots.prioritize_outputs(7, setup.channels)
    assert [output.prioritized for output in setup.outputs] == [[], [7]]
    assert setup.fed == [s.OutputsFinished(7, 8)]
    setup.snapshots.prioritize_outputs(7, setup.channels)
    assert len(setup.fed) == 1


def test_a_failed_write_is_reported_once_and_leaves_nothing_behind() -> None:
    setup = Setup()
    setup.objects.is_full = True
    setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    setup.settle()
    failed = setup.fed[-1]
    assert isinstance(failed, s.AsynchronousPartFailed)
    assert "no room" in failed.error
    setup.snapshots.finish_inputs(7, METRICS)
    setup.settle()
    assert setup.kinds().count("AsynchronousPartFailed") == 1
    assert setup.stored() == []


def test_a_checkpoint_that_is_given_up_while_it_is_written_is_deleted_and_not_reported() -> None:
    setup = Setup()
    setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    setup.run()
    assert len(setup.stored()) == 1
    setup.snapshots.cancel(7)
    setup.settle()
    assert setup.stored() == []
    assert setup.kinds() == ["SynchronousPartFinished"]


def test_what_belongs_to_a_checkpoint_that_is_not_taken_is_passed_over() -> None:
    setup = Setup()
    setup.snapshots.capture_input(9, "in", 1, 0, [rows(1)])
    setup.snapshots.barrier_left(9, setup.channels[0][1])
    setup.snapshots.prioritize_outputs(9, setup.channels)
    setup.snapshots.finish_outputs(9)
    setup.snapshots.cancel(9)
    assert setup.fed == []
    setup.snapshots.finish_inputs(9, METRICS)
    assert setup.fed == [s.InputsFinished(9, METRICS, 0)], "the machine knows whether it wants this"


def test_two_checkpoints_are_told_apart() -> None:
    setup = Setup()
    for checkpoint_id in (7, 8):
        setup.snapshots.broadcast(barrier(checkpoint_id=checkpoint_id), setup.channels)
        setup.take(barrier(checkpoint_id=checkpoint_id))
    setup.snapshots.cancel(7)
    setup.settle()
    finished = [event.checkpoint_id for event in setup.fed if isinstance(event, s.AsynchronousPartFinished)]
    assert finished == [8]
    assert len(setup.stored()) == 1


def test_a_synchronous_snapshot_is_written_before_the_task_goes_on() -> None:
    setup = Setup(is_synchronous=True)
    setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    assert len(setup.stored()) == 1, "although no other thread has run"
    setup.settle()
    assert setup.kinds() == ["SynchronousPartFinished", "AsynchronousPartFinished"]


def test_a_synchronous_snapshot_that_cannot_be_written_fails_the_checkpoint_and_not_the_task() -> None:
    setup = Setup(is_synchronous=True)
    setup.objects.is_full = True
    setup.snapshots.broadcast(barrier(), setup.channels)
    setup.take(barrier())
    setup.settle()
    assert setup.fed[-1] == s.AsynchronousPartFailed(7, "StorageError: no room")

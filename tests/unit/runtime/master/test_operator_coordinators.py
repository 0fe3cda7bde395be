"""The coordinators of an attempt: told what happens to their own operators, and started from their own state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from tests.unit.runtime.master.master_kit import CHECKPOINTS, READ, WRITE, MasterBench, Splits, make_spec, running

import snapline as sl
from snapline.errors import PeerError, UserCodeError
from snapline.graph.execution_plan import ExecutionPlan
from snapline.graph.job_spec import JobSpec
from snapline.protocol.messages import (
    Decline,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TaskReport,
    TriggerCheckpoint,
)
from snapline.runtime.master.job_recovery import claim, recover
from snapline.runtime.master.operator_coordinators import (
    OperatorCoordinators,
    inline,
    prepare_coordinators,
    snapshot_hook,
)
from snapline.runtime.wire.control_messages import TasksCancelled
from snapline.types import FailureReason, JobStatus, TaskStatus


class Counter(sl.OperatorCoordinator):
    """Counts events, and answers each with the count."""

    log: list[Any]

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.count = 0

    def start(self, context: sl.CoordinatorContext) -> None:
        super().start(context)
        self.log.append(f"start {context.attempt}")

    def restore(self, checkpoint_id: int, state: Any) -> None:
        self.count = state
        self.log.append(f"restore {checkpoint_id} {state}")

    def handle_event(self, subtask: int, event: Any) -> None:
        self.count += 1
        self.log.append(f"event {event}")
        if event == "fail":
            raise ValueError("no luck")
        self.context.send(subtask, self.count)

    def snapshot(self, checkpoint_id: int) -> Any:
        return self.count

    def subtask_failed(self, subtask: int, cause: str) -> None:
        self.log.append(f"failed {subtask} {cause}")

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self.log.append(f"completed {checkpoint_id}")

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self.log.append(f"subsumed {checkpoint_id}")

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.log.append(f"aborted {checkpoint_id}")

    def close(self) -> None:
        self.log.append("close")


class Counted(sl.Operator):
    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def make_coordinator(self) -> Counter:
        return Counter(self._log)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        raise AssertionError("no task runs here")


def counted_spec(log: list[Any]) -> JobSpec:
    spec = make_spec(checkpoints=CHECKPOINTS)
    read, write = spec.plan.vertices
    write = replace(write, operators=(replace(write.operators[0], has_coordinator=True),))
    return replace(spec, plan=ExecutionPlan((read, write), spec.plan.edges), coordinated={"write": Counted(log)})


def event(name: str, *, after: int = -1, attempt: int = 1) -> EventToCoordinator:
    return EventToCoordinator(running(WRITE, attempt), "write", after, msgspec.msgpack.encode(name))


class Setup(MasterBench):
    def __init__(self) -> None:
        self.log: list[Any] = []
        super().__init__(counted_spec(self.log))
        self.begin()

    def confirm(self) -> list[Any]:
        """The task takes what it is sent. Returns that."""
        taken = []
        while orders := self.told(OperatorEvent):
            taken += [order.event for order in orders]
            self.say(*(OperatorEventReceived(order.execution.attempt, order.sequence) for order in orders))
        return taken

    def checkpoint(self, name: str) -> int:
        self.request(name)
        (trigger,) = self.told(TriggerCheckpoint)
        checkpoint_id: int = trigger.barrier.id
        self.acknowledge(checkpoint_id)
        return checkpoint_id

    def fail(self, cause: str) -> None:
        self.say(TaskReport(running(WRITE), TaskStatus.FAILED, cause))


def test_events_go_to_the_coordinator_and_its_answers_to_the_subtask() -> None:
    setup = Setup()
    setup.say(event("a"), event("b"))
    assert setup.confirm() == [1, 2]
    assert setup.log == ["start 1", "event a", "event b"]


def test_coordinators_hear_how_checkpoints_end() -> None:
    setup = Setup()
    first, second = setup.checkpoint("one"), setup.checkpoint("two")
    setup.request("three")
    setup.fail("boom")
    assert setup.log[1:4] == [f"completed {first}", f"completed {second}", f"subsumed {first}"]
    assert setup.log[4:6] == ["failed 0 boom", "close"]


def test_a_declined_checkpoint_is_told_as_aborted() -> None:
    setup = Setup()
    setup.request("one")
    (trigger,) = setup.told(TriggerCheckpoint)
    setup.say(Decline(running(WRITE), trigger.barrier.id, FailureReason.CHECKPOINT_DECLINED))
    assert setup.log[-1] == f"aborted {trigger.barrier.id}"


def test_a_restart_begins_with_the_state_of_the_checkpoint_and_the_events_that_were_on_their_way() -> None:
    setup = Setup()
    setup.say(event("before"))
    setup.confirm()
    setup.request("one")
    (trigger,) = setup.told(TriggerCheckpoint)
    checkpoint_id = trigger.barrier.id
    setup.say(event("on its way"), event("behind the barrier", after=checkpoint_id))
    setup.acknowledge(checkpoint_id)
    setup.confirm()
    setup.log.clear()
    setup.fail("boom")
    setup.say(TasksCancelled(1))
    setup.settle(1500)
    assert setup.log == ["failed 0 boom", "close", "start 2", f"restore {checkpoint_id} 1", "event on its way"]


def test_a_lost_process_is_a_failure_of_its_subtasks() -> None:
    setup = Setup()
    setup.slots.closed(setup.worker, "gone")
    setup.settle()
    assert setup.log[1:3] == ["failed 0 the operator process of slot 0 is gone", "close"]


def test_an_error_of_a_coordinator_fails_the_job_over() -> None:
    setup = Setup()
    setup.say(event("fail"))
    assert setup.status() is not JobStatus.RUNNING
    assert "handle_event of the coordinator of 'write' failed: ValueError: no luck" in str(setup.master.failure.failure)
    setup.say(TasksCancelled(1))
    setup.settle(1500)
    assert setup.log[-2:] == ["close", "start 2"]


def test_a_task_reaches_the_coordinators_of_its_own_operators_only() -> None:
    setup = Setup()
    with pytest.raises(PeerError, match="the coordinator of 'write', which it does not run"):
        setup.master.process_said(0, EventToCoordinator(running(READ), "write", None, b"\xc0"))
    with pytest.raises(PeerError, match="an event of 16777217 bytes"):
        setup.master.process_said(0, EventToCoordinator(running(WRITE), "write", None, b"x" * ((16 << 20) + 1)))


class Hook(sl.MasterHook):
    """Keeps what it is called with; fails if it should."""

    name = "hook"

    def __init__(self, problem: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.problem = problem

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        if self.problem is not None:
            raise self.problem
        self.calls.append(checkpoint_id)
        return b"state"

    def reset(self) -> None:
        if self.problem is not None:
            raise self.problem
        self.calls.append("reset")

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        self.calls.append((checkpoint_id, state))


def prepared(spec: JobSpec) -> OperatorCoordinators:
    """The coordinators of a first attempt."""
    bench = MasterBench(spec)
    bench.blocking(lambda: claim(bench.storage.archive, 0))
    recovery = bench.blocking(lambda: recover(spec, bench.storage, 1))
    return bench.blocking(
        lambda: prepare_coordinators(spec, recovery, bench.storage.objects, bench.scheduler, bench.calls)
    )


def test_errors_of_a_source_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def splits(self: Splits, parallelism: int) -> Any:
        raise OSError("no such directory")

    monkeypatch.setattr(Splits, "splits", splits)
    with pytest.raises(UserCodeError, match="splits of the source 'read' failed: OSError: no such directory"):
        prepared(make_spec(checkpoints=CHECKPOINTS))


def test_hooks_are_reset_at_the_beginning_and_restored_with_what_they_kept() -> None:
    hook = Hook()
    spec = make_spec(checkpoints=CHECKPOINTS, hooks={"hook": hook})
    first = MasterBench(spec)
    first.begin()
    first.request()
    first.acknowledge(1)
    storage = first.other_driver()
    first.blocking(lambda: claim(storage.archive, 0))
    recovery = first.blocking(lambda: recover(spec, storage, 2))
    first.blocking(lambda: prepare_coordinators(spec, recovery, storage.objects, first.scheduler, first.calls))
    assert hook.calls == ["reset", 1, (1, b"state")]


def test_errors_of_a_hook_name_it() -> None:
    spec = make_spec(checkpoints=CHECKPOINTS, hooks={"mine": Hook(ValueError("no"))})
    with pytest.raises(UserCodeError, match="snapshot of the master hook 'mine' failed: ValueError: no"):
        snapshot_hook(spec, "mine", 3)
    with pytest.raises(UserCodeError, match="reset of the master hook 'mine' failed: ValueError: no"):
        prepared(spec)


def test_small_state_stands_in_the_metadata_with_its_checksum() -> None:
    stored = inline("read", 2, 7, b"abc")
    assert (stored.path, stored.size_bytes, stored.data) == ("inline:2/7/read", 3, b"abc")
    assert stored.crc32 != inline("read", 2, 7, b"abd").crc32

"""A slot's tasks, driven by messages of a driver that the test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace
from tests.unit.runtime.slot.slot_kit import (
    DEADLINE_S,
    DriverLink,
    bootstrap,
    deploy,
    environment,
    executions,
    make_exchange,
    make_shipment,
)

from snapline.errors import StorageError
from snapline.protocol.messages import (
    Acknowledge,
    Decline,
    EventToCoordinator,
    OperatorEvent,
    OperatorEventReceived,
    TriggerCheckpoint,
)
from snapline.runtime.slot.process_directory import ProcessDirectory
from snapline.runtime.slot.task_host import TaskHost
from snapline.runtime.wire import control_messages as m
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.types import Barrier, ExecutionId, FailureReason, TaskStatus


class Host:
    """A task host on a thread of its own."""

    def __init__(self, link: DriverLink, host: TaskHost, shipment: Any, address: tuple[str, int]) -> None:
        self.link = link
        self.host = host
        self.shipment = shipment
        self.address = address
        self.thread = threading.Thread(target=host.run)
        self.thread.start()

    def deploy(self, attempt: int = 1, **fields: Any) -> list[ExecutionId]:
        self.link.say(deploy(self.shipment, self.address, attempt, **fields))
        return executions(self.shipment, attempt)

    def run_tasks(self, attempt: int = 1) -> list[ExecutionId]:
        found = self.deploy(attempt)
        for _ in found:
            self.link.status(TaskStatus.RUNNING)
        return found

    def has_ended(self) -> bool:
        self.thread.join(DEADLINE_S)
        return not self.thread.is_alive()


@contextmanager
def hosting(function: Callable[[Any], Any] | None = None, store: MemoryObjects | None = None) -> Iterator[Host]:
    shipment, exchange, link = make_shipment(function), make_exchange(), DriverLink()
    with environment() as threads:
        task_host = TaskHost(
            bootstrap(),
            shipment,
            exchange,
            store or MemoryObjects(),
            threads,
            link,
            ProcessDirectory(None),
            lambda: "the log",
        )
        host = Host(link, task_host, shipment, exchange.address)
        try:
            yield host
        finally:
            task_host.stop()
            assert host.has_ended()


def test_it_says_who_it_is_first_and_beats() -> None:
    with hosting() as host:
        hello = host.link.said.get(timeout=DEADLINE_S)
        assert isinstance(hello, m.ProcessHello)
        assert (hello.generation, hello.slot, hello.incarnation) == (1, 0, 2)
        assert (hello.host, hello.port) == host.address
        host.link.next(m.Heartbeat)


def test_tasks_are_deployed_and_cancelled_and_that_is_said() -> None:
    with hosting() as host:
        first = host.run_tasks()
        host.link.say(m.Cancel(1))
        assert host.link.next(m.TasksCancelled) == m.TasksCancelled(1)
        second = host.run_tasks(2)
        assert [e.subtask for e in second] == [e.subtask for e in first]


def test_a_cancelled_attempt_is_not_deployed_any_more() -> None:
    with hosting() as host:
        host.link.say(m.Cancel(3))
        assert host.link.next(m.TasksCancelled) == m.TasksCancelled(3)
        host.deploy(3)
        host.deploy(4)
        report = host.link.status(TaskStatus.RUNNING)
        assert report.execution.attempt == 4


def test_a_region_is_cancelled_and_deployed_again_beside_another() -> None:
    """Both vertices of the job stand for regions here: only one is deployed at a time."""
    with hosting() as host:
        whole = deploy(host.shipment, host.address)
        read, write = (replace(whole, tasks=[task]) for task in whole.tasks)
        host.link.say(read)
        host.link.say(replace(write, region=1))
        executions = {host.link.status(TaskStatus.RUNNING).execution for _ in range(2)}
        assert executions == {task.execution for task in whole.tasks}
        host.link.say(m.Cancel(1, [1]))
        assert host.link.next(m.TasksCancelled) == m.TasksCancelled(1, [1])
        again = deploy(host.shipment, host.address, 2).tasks[1]
        host.link.say(replace(write, attempt=1, region=1))
        host.link.say(replace(write, attempt=2, region=1, tasks=[again]))
        assert host.link.status(TaskStatus.RUNNING).execution == again.execution, "the cancelled attempt is fenced"
        kept = read.tasks[0].execution
        host.link.say(TriggerCheckpoint(kept, Barrier(5, 0)))
        assert host.link.next(Acknowledge).execution == kept
        host.link.say(m.Cancel(2))
        assert host.link.next(m.TasksCancelled) == m.TasksCancelled(2)


def test_an_event_of_the_coordinator_is_confirmed_and_the_source_reads() -> None:
    with hosting() as host:
        read, _ = host.run_tasks()
        split = host.link.next(EventToCoordinator)
        assert split.execution == read
        host.link.say(OperatorEvent(read, split.operator, 7, None))
        assert host.link.next(OperatorEventReceived) == OperatorEventReceived(1, 7)


def test_messages_for_tasks_of_other_attempts_are_not_answered() -> None:
    with hosting() as host:
        read, _ = host.run_tasks(2)
        old = ExecutionId(read.subtask, 1)
        host.link.say(OperatorEvent(old, "read", 1, None))
        host.link.say(OperatorEvent(read, "read", 2, None))
        assert host.link.next(OperatorEventReceived) == OperatorEventReceived(2, 2)


def test_a_trigger_reaches_its_task() -> None:
    with hosting() as host:
        read, _ = host.run_tasks()
        barrier = Barrier(5, 0)
        host.link.say(TriggerCheckpoint(read, barrier))
        answers = {host.link.next(Acknowledge).execution for _ in range(2)}
        assert answers == set(executions(host.shipment)), "its barrier went on to the next"


def test_a_trigger_for_a_task_that_is_not_here_is_declined_at_once() -> None:
    with hosting() as host:
        read, _ = host.run_tasks(2)
        old = ExecutionId(read.subtask, 1)
        host.link.say(TriggerCheckpoint(old, Barrier(5, 0)))
        declined = host.link.next(Decline)
        assert declined == Decline(old, 5, FailureReason.TASK_CHECKPOINT_FAILURE, f"slot 0 does not run {old}")


def test_figures_of_running_tasks_are_reported() -> None:
    with hosting() as host:
        found = host.run_tasks()
        metrics = host.link.next(m.Metrics, lambda message: len(message.tasks) == len(found))
        assert metrics.memory_bytes > 0
        assert {task.execution for task in metrics.tasks} == set(found)


def test_the_loss_of_the_driver_ends_everything() -> None:
    with hosting() as host:
        host.run_tasks()
        host.link.hang_up()
        assert host.has_ended()
        assert host.link.is_closed


def test_a_message_that_cannot_be_sent_ends_everything() -> None:
    with hosting() as host:
        host.run_tasks()
        host.link.is_gone = True
        assert host.has_ended()


def test_a_machine_that_cannot_write_checkpoints_says_so() -> None:
    class Unwritable(MemoryObjects):
        def write(self, path: str, data: Any) -> None:
            raise StorageError(f"{path}: permission denied")

    with hosting(store=Unwritable()) as host:
        host.deploy(shared="memory:shared")
        unable = host.link.next(m.ProcessUnable)
        assert "cannot write checkpoints to memory:shared" in unable.error
        assert "permission denied" in unable.error
        assert host.link.status(TaskStatus.FAILED).log == "the log"

"""Starting and stopping the tasks of an attempt in their slots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.runtime.master.master_kit import make_spec, running
from tests.unit.runtime.runtime_bench import Bench

from snapline.graph.job_spec import JobSpec
from snapline.protocol.lineage import Lineage
from snapline.protocol.restore.restore_plan import RestorePlan
from snapline.runtime.master.deployment import Deployment
from snapline.runtime.master.job_recovery import Recovery
from snapline.runtime.wire import control_messages as m
from snapline.types import NO_CHECKPOINT, SubtaskId

ADDRESSES = [("a", 1), ("b", 2)]
EVERYONE = [SubtaskId(vertex, index) for vertex in ("read", "write") for index in (0, 1)]


class FakeSlots:
    """Two slots; the test says whose process lives."""

    def __init__(self) -> None:
        self.live_processes = [0, 1]
        self.log: list[tuple[Any, ...]] = []
        self.sent: list[tuple[int, m.Message]] = []

    def acquire(self) -> None:
        self.log.append(("acquire",))

    def give_up(self) -> None:
        self.log.append(("give up",))

    def idle(self) -> None:
        self.log.append(("idle",))

    def kill_process(self, slot: int) -> None:
        self.log.append(("kill", slot))

    def send(self, slot: int, message: m.Message) -> bool:
        self.sent.append((slot, message))
        return slot in self.live_processes


def recovery(attempt: int = 1) -> Recovery:
    plan = RestorePlan(
        NO_CHECKPOINT, {"read": 128, "write": 128}, {subtask: {} for subtask in EVERYONE}, frozenset(), {}, {}
    )
    return Recovery(attempt, (), None, None, plan, 5, Lineage("job.1"))


class Setup(Bench):
    def __init__(self, spec: JobSpec | None = None) -> None:
        super().__init__()
        self.slots = FakeSlots()
        self.stopped: list[int] = []
        self.killed: list[int] = []
        slots: Any = self.slots
        spec = spec or make_spec(parallelism=2, cancel_timeout="3s")
        self.deployment = Deployment(spec, self.scheduler, slots, "shared", self)

    def tasks_stopped(self, attempt: int) -> None:
        self.stopped.append(attempt)

    def process_killed(self, slot: int) -> None:
        self.killed.append(slot)


def test_tasks_are_deployed_once_all_slots_are_there() -> None:
    setup = Setup()
    setup.deployment.deploy(recovery(), EVERYONE[1:])
    assert setup.slots.sent == []
    setup.deployment.slots_ready(ADDRESSES)
    assert [slot for slot, _ in setup.slots.sent] == [0, 1]
    first, second = (message for _, message in setup.slots.sent)
    assert isinstance(first, m.Deploy)
    assert isinstance(second, m.Deploy)
    assert (first.peers, first.shared, first.prepared_until) == (ADDRESSES, "shared", 5)
    assert [(str(task.execution), task.finished) for task in first.tasks] == [("read/0#1", True), ("write/0#1", False)]
    assert [str(task.execution) for task in second.tasks] == ["read/1#1", "write/1#1"]


def test_slots_that_come_when_nothing_waits_for_them_get_nothing() -> None:
    setup = Setup()
    setup.deployment.slots_ready(ADDRESSES)
    setup.deployment.deploy(recovery(), EVERYONE)
    setup.deployment.cancel(1)
    setup.slots.sent.clear()
    setup.deployment.slots_ready(ADDRESSES)
    assert setup.slots.sent == []


def test_an_attempt_has_stopped_when_every_live_process_says_so_or_is_gone() -> None:
    setup = Setup()
    setup.deployment.cancel(2)
    assert setup.slots.sent == [(0, m.Cancel(2)), (1, m.Cancel(2))]
    setup.deployment.tasks_cancelled(0, 1)
    setup.deployment.tasks_cancelled(0, 2)
    assert setup.stopped == []
    setup.deployment.process_gone(1)
    assert setup.stopped == [2]
    assert setup.slots.log == [("give up",), ("idle",)]
    setup.deployment.process_gone(0)
    assert setup.stopped == [2], "it is told once"


def test_an_answer_of_an_older_cancellation_does_not_count() -> None:
    setup = Setup()
    setup.slots.live_processes = [0]
    setup.deployment.cancel(2)
    setup.deployment.tasks_cancelled(0, 1)
    assert setup.stopped == []
    setup.deployment.tasks_cancelled(0, 2)
    assert setup.stopped == [2]


def test_without_processes_nothing_runs() -> None:
    setup = Setup()
    setup.slots.live_processes = []
    setup.deployment.cancel(2)
    assert (setup.stopped, setup.slots.sent) == ([2], [])


def test_a_process_that_does_not_stop_in_time_is_killed() -> None:
    setup = Setup()
    setup.deployment.cancel(2)
    setup.deployment.tasks_cancelled(0, 2)
    setup.advance(2999)
    assert setup.stopped == []
    setup.advance(1)
    assert ("kill", 1) in setup.slots.log
    assert ("kill", 0) not in setup.slots.log
    assert setup.stopped == [2]


def test_nobody_is_killed_after_all_have_stopped() -> None:
    setup = Setup()
    setup.deployment.cancel(2)
    for slot in (0, 1):
        setup.deployment.tasks_cancelled(slot, 2)
    setup.advance(10_000)
    assert ("kill", 0) not in setup.slots.log
    setup.deployment.cancel(3)
    setup.deployment.close()
    setup.advance(10_000)
    assert ("kill", 0) not in setup.slots.log
    assert setup.stopped == [2]


def test_a_message_goes_to_the_slot_of_its_subtask() -> None:
    setup = Setup()
    assert setup.deployment.send(running(SubtaskId("write", 1)), m.Heartbeat())
    assert setup.slots.sent == [(1, m.Heartbeat())]
    setup.slots.live_processes = []
    assert not setup.deployment.send(running(SubtaskId("write", 1)), m.Heartbeat())


# Regions: without its edge the job has two, `read` and `write`.


def two_regions() -> Setup:
    spec = make_spec(parallelism=2, cancel_timeout="3s")
    return Setup(replace(spec, plan=replace(spec.plan, edges=())))


def test_each_region_is_deployed_by_itself() -> None:
    setup = two_regions()
    setup.deployment.deploy(recovery(), EVERYONE)
    setup.deployment.slots_ready(ADDRESSES)
    deploys = [(slot, message) for slot, message in setup.slots.sent if isinstance(message, m.Deploy)]
    assert [(slot, it.region, [str(task.execution) for task in it.tasks]) for slot, it in deploys] == [
        (0, 0, ["read/0#1"]),
        (1, 0, ["read/1#1"]),
        (0, 1, ["write/0#1"]),
        (1, 1, ["write/1#1"]),
    ]


def test_a_region_that_restarts_is_deployed_alone() -> None:
    setup = two_regions()
    setup.deployment.deploy(replace(recovery(2), regions=frozenset({1})), EVERYONE[2:])
    setup.deployment.slots_ready(ADDRESSES)
    assert [message.region for _, message in setup.slots.sent if isinstance(message, m.Deploy)] == [1, 1]


def test_a_region_has_stopped_when_every_process_says_so_of_it() -> None:
    setup = two_regions()
    setup.deployment.cancel(2, frozenset({1}))
    assert setup.slots.sent == [(0, m.Cancel(2, [1])), (1, m.Cancel(2, [1]))]
    setup.deployment.tasks_cancelled(0, 2, [1])
    setup.deployment.tasks_cancelled(1, 2, [0])
    assert setup.stopped == []
    setup.deployment.tasks_cancelled(1, 2, [1])
    assert setup.stopped == [2]
    assert ("idle",) not in setup.slots.log, "other regions run there"


def test_a_cancellation_of_everything_waits_for_the_region_before_too() -> None:
    setup = two_regions()
    setup.deployment.cancel(2, frozenset({1}))
    setup.deployment.cancel(2)
    setup.deployment.tasks_cancelled(0, 2, [1])
    setup.deployment.tasks_cancelled(1, 2, [1])
    setup.deployment.tasks_cancelled(0, 2)
    assert setup.stopped == []
    setup.deployment.tasks_cancelled(1, 2)
    assert setup.stopped == [2]
    assert ("idle",) in setup.slots.log


def test_a_killed_process_is_reported_before_the_end_of_the_region() -> None:
    setup = two_regions()
    setup.deployment.cancel(2, frozenset({1}))
    setup.deployment.tasks_cancelled(0, 2, [1])
    setup.advance(3000)
    assert ("kill", 1) in setup.slots.log
    assert (setup.killed, setup.stopped) == ([1], [2])

"""The slots of a job: who is listened to, what they are told, and how a loss is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.runtime.master.master_kit import (
    READ,
    FakePeer,
    FakeProvider,
    make_spec,
    process_hello,
    running,
    supervisor_hello,
)
from tests.unit.runtime.runtime_bench import Bench

from snapline.errors import PeerError
from snapline.protocol.messages import TaskReport
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.master.slots import DEATH_IS_REPORTED_S, Slots
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.wire import control_messages as m
from snapline.types import TaskStatus


class Owner:
    """Keeps what slots report."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.log.append((name, *arguments))


class Setup(Bench):
    """The slots of a job, with a provider and peers that the test plays."""

    def __init__(self, count: int = 2) -> None:
        super().__init__()
        spec = make_spec(parallelism=count, heartbeat_interval="1s", heartbeat_timeout="5s")
        self.provider = FakeProvider()
        self.owner = Owner()
        self.probes: list[Callable[[str | None], None]] = []
        generations = SlotGenerations(self.scheduler, spec, self.provider, self._failed)
        owner: Any = self.owner
        self.slots = Slots(
            count,
            spec.execution,
            self.scheduler,
            generations,
            lambda address, slot, credentials, done: self.probes.append(done),
            owner,
            EffectQueue(),
            EventLog(self.scheduler.now_ms),
        )
        self.supervisors = [FakePeer() for _ in range(count)]
        self.processes = [FakePeer() for _ in range(count)]

    def _failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self.slots.provider_failed(generation, error, is_fatal)

    def register(self) -> None:
        self.slots.acquire()
        self.run()
        for slot, peer in enumerate(self.supervisors):
            assert self.slots.greeted(peer, supervisor_hello(slot=slot)) is None

    def ready(self) -> Setup:
        self.register()
        for slot, peer in enumerate(self.processes):
            assert self.slots.greeted(peer, process_hello(slot=slot)) is None
        for done in self.probes:
            done(None)
        assert self.reported() == [("slots_ready", (("node", 100), ("node", 101)))]
        for peer in (*self.supervisors, *self.processes):
            peer.said()
        return self

    def reported(self) -> list[tuple[Any, ...]]:
        log, self.owner.log = self.owner.log, []
        return log


def test_a_supervisor_is_told_to_start_a_process_and_all_are_announced_at_once() -> None:
    setup = Setup()
    assert not setup.slots.credentials
    setup.register()
    assert setup.slots.credentials == setup.provider.orders[0].credentials
    assert [peer.said() for peer in setup.supervisors] == [[m.StartProcess(1)]] * 2
    setup.slots.greeted(setup.processes[0], process_hello())
    setup.slots.greeted(setup.processes[1], process_hello(slot=1))
    setup.probes[1](None)
    assert setup.reported() == []
    setup.probes[0](None)
    assert setup.reported() == [("slots_ready", (("node", 100), ("node", 101)))]


def test_a_peer_that_is_refused_is_nobody() -> None:
    setup = Setup().ready()
    stranger = FakePeer()
    refusal = setup.slots.greeted(stranger, process_hello(incarnation=7))
    assert refusal == "operator process 7 of slot 0 is not the one awaited"
    setup.slots.received(stranger, TaskReport(running(READ), TaskStatus.RUNNING))
    setup.slots.closed(stranger, "gone")
    assert setup.reported() == []
    assert setup.slots.send(0, m.Cancel(1))
    assert setup.processes[0].said() == [m.Cancel(1)]


def test_a_process_is_heard_and_a_supervisor_may_say_little() -> None:
    setup = Setup().ready()
    report = TaskReport(running(READ), TaskStatus.RUNNING)
    setup.slots.received(setup.processes[1], m.Heartbeat())
    setup.slots.received(setup.processes[1], report)
    setup.slots.received(setup.processes[1], m.ProcessUnable("no disk"))
    assert setup.reported() == [("process_said", 1, report), ("process_unable", "slot 1 on node: no disk")]
    with pytest.raises(PeerError, match="TaskReport"):
        setup.slots.received(setup.supervisors[1], report)


def test_a_lost_process_is_reported_and_its_death_explains_it() -> None:
    setup = Setup().ready()
    setup.slots.closed(setup.processes[0], "reset by peer")
    assert [entry[0] for entry in setup.reported()] == ["process_gone", "slot_failed"]
    assert not setup.slots.send(0, m.Cancel(1))
    setup.slots.acquire()
    assert setup.supervisors[0].said() == [m.StartProcess(2)]
    setup.slots.received(setup.supervisors[0], m.ProcessDied(1, "killed by signal 9", "log"))
    ((kind, cause, log, slot),) = setup.reported()
    assert (kind, log, slot) == ("failure_explained", "log", 0)
    assert "killed by signal 9" in cause


def test_a_process_that_is_silent_is_cut_off_and_killed() -> None:
    setup = Setup().ready()
    while not setup.processes[1].is_closed:
        setup.advance(1000)
        for peer in (*setup.supervisors, setup.processes[0]):
            peer.heard_s = setup.scheduler.time_s()
        setup.slots.beat()
        assert setup.scheduler.time_s() <= 6
    assert setup.scheduler.time_s() > 5
    assert "heartbeat_timeout" in setup.processes[1].close_reason
    assert not setup.processes[0].is_closed
    setup.slots.closed(setup.processes[1], setup.processes[1].close_reason)
    assert setup.supervisors[1].said() == [m.KillProcess(1)], "it may still live"


def test_after_a_standstill_of_the_driver_nobody_is_late() -> None:
    setup = Setup().ready()
    setup.slots.beat()
    setup.advance(60_000)
    setup.slots.beat()
    assert not any(peer.is_closed for peer in (*setup.supervisors, *setup.processes))


def test_a_port_that_is_not_reached_is_reported_later_than_a_death() -> None:
    setup = Setup()
    setup.register()
    setup.slots.greeted(setup.processes[0], process_hello())
    setup.probes[0]("connection refused")
    setup.advance(round(DEATH_IS_REPORTED_S * 1000) - 1)
    assert setup.reported() == []
    setup.advance(1)
    ((kind, cause, _, _, is_loss),) = setup.reported()
    assert (kind, "connection refused" in cause, is_loss) == ("slot_failed", True, False)
    assert setup.processes[0].is_closed


def test_a_process_that_died_meanwhile_is_not_reported_as_unreached() -> None:
    setup = Setup()
    setup.register()
    setup.slots.greeted(setup.processes[0], process_hello())
    setup.probes[0]("connection refused")
    setup.slots.received(setup.supervisors[0], m.ProcessDied(1, "exited with status 1", ""))
    assert [entry[0] for entry in setup.reported()] == ["process_gone", "slot_failed"]
    setup.advance(5000)
    assert setup.reported() == []


def test_a_lost_supervisor_leads_to_slots_of_the_next_generation() -> None:
    setup = Setup().ready()
    setup.slots.closed(setup.supervisors[0], "reset by peer")
    assert [entry[0] for entry in setup.reported()] == ["process_gone", "slot_failed"]
    setup.slots.idle()
    assert setup.supervisors[1].said() == [m.Drain()]
    setup.slots.acquire()
    setup.run()
    assert [order.generation for order in setup.provider.orders] == [1, 2]
    assert setup.processes[1].is_closed
    assert setup.reported() == [("process_gone", 1)]
    assert setup.slots.greeted(FakePeer(), supervisor_hello(generation=1)) is not None


def test_slots_are_given_back_before_the_provider_is_closed() -> None:
    setup = Setup().ready()
    done: list[str] = []
    setup.slots.close(lambda: done.append("closed"), has_ended=True)
    assert [peer.said() for peer in setup.supervisors] == [[m.Drain(has_ended=True)]] * 2
    setup.run()
    assert setup.provider.calls == ["release", "close"]
    assert done == ["closed"]
    setup.slots.acquire()
    setup.run()
    assert len(setup.provider.orders) == 1, "nothing is ordered any more"


def test_without_slots_the_provider_is_closed_at_once() -> None:
    setup = Setup()
    done: list[str] = []
    setup.slots.close(lambda: done.append("closed"), has_ended=False)
    setup.run()
    assert (setup.provider.calls, done) == (["close"], ["closed"])


def test_only_slots_that_are_missing_make_a_start_time_out() -> None:
    setup = Setup()
    setup.register()
    assert setup.slots.start_timed_out()
    assert [entry[0] for entry in setup.reported()] == ["slot_failed"]
    assert not Setup().ready().slots.start_timed_out()

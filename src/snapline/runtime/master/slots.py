"""The slots of a job: carries out the slot board's effects and watches supervisors and processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from snapline.config import Execution
from snapline.errors import PeerError
from snapline.protocol.job import slot_board as b
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.slot_generations import CLOSE_TIMEOUT_S, SlotGenerations
from snapline.runtime.master.slot_probe import Probe
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.runtime.scheduler.silence import silent_since
from snapline.runtime.wire.control_messages import (
    Drain,
    Heartbeat,
    KillProcess,
    Message,
    ProcessDied,
    ProcessHello,
    ProcessUnable,
    StartProcess,
    SupervisorHello,
    ToMaster,
)
from snapline.runtime.wire.credentials import Credentials

DEATH_IS_REPORTED_S = 0.5
"""Delay before a process counts as unreachable: if it died, its supervisor is about to report that."""


class Peer(Protocol):
    """The connection of a supervisor or an operator process; see `PeerConnection`."""

    host: str
    heard_s: float
    close_reason: str

    def send(self, message: Message) -> None: ...

    def close(self, reason: str = "") -> None: ...


class SlotsOwner(Protocol):
    """The user of the slots. Called on the loop."""

    def slots_ready(self, addresses: tuple[b.Address, ...]) -> None:
        """Every slot has an idle operator process; `addresses` are their data ports by slot."""

    def failure_explained(self, cause: str, log: str, slot: int | None) -> None:
        """Why a slot was lost that is replaced already."""

    def slot_failed(self, cause: str, log: str, slot: int | None, is_loss: bool) -> None:
        """A slot or its operator process failed. After a loss, whose reason is not known, another call may say why."""

    def slots_failed(self, cause: str, is_fatal: bool) -> None:
        """There are no slots; `is_fatal` means that a retry would not help."""

    def process_unable(self, cause: str) -> None: ...

    def process_gone(self, slot: int) -> None:
        """As far as is known, nothing runs in this slot any more."""

    def process_said(self, slot: int, message: ToMaster) -> None:
        """An operator process reports about its tasks. Raises `PeerError` if it may not."""


class Slots:
    """The shell of the slot board. Used on the loop only."""

    def __init__(
        self,
        count: int,
        execution: Execution,
        scheduler: Scheduler,
        generations: SlotGenerations,
        probe: Probe,
        owner: SlotsOwner,
        effects: EffectQueue,
        events: EventLog,
    ) -> None:
        self._count = count
        self._execution = execution
        self._scheduler = scheduler
        self._generations = generations
        self._probe = probe
        self._owner = owner
        self._effects = effects
        self._events = events
        self._board = b.SlotBoard(count)
        self._peers: dict[Peer, int] = {}
        self._supervisors: dict[int, Peer] = {}
        self._processes: dict[int, Peer] = {}
        self._silent: set[int] = set()
        """Slots whose supervisors were not heard of for too long."""
        self._is_closed = False
        self._has_ended = False
        self._on_closed: Callable[[], None] | None = None
        self._beaten_s = scheduler.time_s()

    # Acquiring and releasing.

    def acquire(self) -> None:
        """Get an operator process in every slot; `slots_ready` or a failure follows, unless `give_up` comes first."""
        if not self._is_closed:
            self._add(self._board.wanted())

    def give_up(self) -> None:
        self._board.unwanted()

    def warm_up(self) -> None:
        """Start the processes early that will be needed."""
        self._add(self._board.wanted_soon())

    def idle(self) -> None:
        self._add(self._board.idle())

    def close(self, done: Callable[[], None], *, has_ended: bool) -> None:
        """Return all slots and close the provider, then call `done`. If the job `has_ended`, slots keep nothing."""
        self._is_closed = True
        self._has_ended = has_ended
        self._on_closed = lambda: self._generations.close(done)
        self._board.unwanted()
        self._add(self._board.release())
        if self._board.possession is b.Possession.NONE:
            self._finish_close()
        else:
            self._scheduler.call_later(CLOSE_TIMEOUT_S, self._finish_close)

    def _finish_close(self) -> None:
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed()

    def start_timed_out(self) -> bool:
        """Give up slots that are not ready. Returns False if all are: something else is late."""
        effects = self._board.start_timed_out(self._execution.start_timeout_ms / 1000)
        self._add(effects)
        return bool(effects)

    # Messages.

    def send(self, slot: int, message: Message) -> bool:
        """Send to the operator process of a slot. Returns False if there is none."""
        process = self._processes.get(slot)
        if process is not None:
            process.send(message)
        return process is not None

    @property
    def is_doomed(self) -> bool:
        """Whether all slots have to be replaced, because one is lost."""
        return self._board.possession is b.Possession.DOOMED

    @property
    def live_processes(self) -> list[int]:
        return self._board.live_processes

    def kill_process(self, slot: int) -> None:
        """Kill an operator process; another starts when slots are next wanted."""
        self._add(self._board.kill(slot))

    # Reports of the port; see `Listener`.

    @property
    def credentials(self) -> Credentials | None:
        return self._generations.credentials

    def greeted(self, peer: Peer, hello: SupervisorHello | ProcessHello) -> str | None:
        if isinstance(hello, SupervisorHello):
            effects = self._board.supervisor_greeted(hello.generation, hello.slot, hello.host)
        else:
            address = (hello.host, hello.port)
            effects = self._board.process_greeted(hello.generation, hello.slot, hello.incarnation, hello.pid, address)
        if effects and isinstance(effects[0], b.RefusePeer):
            return effects[0].reason
        peers = self._supervisors if isinstance(hello, SupervisorHello) else self._processes
        peers[hello.slot] = peer
        self._peers[peer] = hello.slot
        self._add(effects)
        return None

    def unable(self, error: str) -> None:
        self._owner.process_unable(error)

    def received(self, peer: Peer, message: ToMaster) -> None:
        slot = self._peers.get(peer)
        if slot is None or isinstance(message, Heartbeat):
            return
        if self._supervisors.get(slot) is peer:
            if not isinstance(message, ProcessDied):
                raise PeerError(f"a supervisor may not say {type(message).__name__}")
            self._add(self._board.process_ended(slot, message.incarnation, message.error, message.log))
        elif isinstance(message, ProcessUnable):
            self._owner.process_unable(f"slot {slot} on {peer.host}: {message.error}")
        else:
            self._owner.process_said(slot, message)

    def closed(self, peer: Peer, reason: str) -> None:
        slot = self._peers.pop(peer, None)
        if slot is None:
            return
        if self._supervisors.get(slot) is peer:
            del self._supervisors[slot]
            if peer.close_reason:
                self._silent.add(slot)
            self._add(self._board.supervisor_lost(slot, reason))
        elif self._processes.get(slot) is peer:
            del self._processes[slot]
            self._add(self._board.process_lost(slot, reason, may_live=bool(peer.close_reason)))

    def provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        self._add(self._board.provider_failed(generation, error, is_fatal))

    # Effects of the board.

    def _add(self, effects: list[b.SlotEffect]) -> None:
        self._effects.add(self._carry_out, effects)

    def _carry_out(self, effect: b.SlotEffect) -> None:
        owner = self._owner
        match effect:
            case b.OrderSlots(generation):
                self._silent = set()
                self._generations.order(generation)
                self._events.add(f"slots ordered: generation {generation}, {self._count} slots")
            case b.GiveSlotsBack():
                for supervisor in self._supervisors.values():
                    supervisor.send(Drain(self._has_ended))
                silent = self._silent
                self._generations.release(lambda: self._add(self._board.released()), lambda: tuple(silent))
            case b.StartSlotProcess(slot, incarnation):
                self._send_to_supervisor(slot, StartProcess(incarnation))
            case b.KillSlotProcess(slot, incarnation):
                self._send_to_supervisor(slot, KillProcess(incarnation))
            case b.ProbeProcess(slot, incarnation, address):
                self._start_probe(slot, incarnation, address)
            case b.DropProcess(slot):
                peer = self._processes.pop(slot, None)
                if peer is not None:
                    self._peers.pop(peer, None)
                    peer.close()
            case b.DropAll():
                self._drop_all()
            case b.AnnounceReady(addresses):
                owner.slots_ready(addresses)
            case b.ReportProcessGone(slot):
                owner.process_gone(slot)
            case b.ReportSlotFailure(cause, log, explains, slot, is_loss):
                if explains:
                    owner.failure_explained(cause, log, slot)
                else:
                    owner.slot_failed(cause, log, slot, is_loss)
            case b.ReportNoSlots(cause, is_fatal):
                owner.slots_failed(cause, is_fatal)

    def _send_to_supervisor(self, slot: int, message: Message) -> None:
        supervisor = self._supervisors.get(slot)
        if supervisor is not None:
            supervisor.send(message)

    def _start_probe(self, slot: int, incarnation: int, address: b.Address) -> None:
        credentials = self._generations.credentials
        assert credentials is not None

        def probed(error: str | None) -> None:
            if error is None:
                self._add(self._board.process_reached(slot, incarnation))
            else:
                self._scheduler.call_later(
                    DEATH_IS_REPORTED_S, lambda: self._add(self._board.process_unreached(slot, incarnation, error))
                )

        self._probe(address, slot, credentials, probed)

    def _drop_all(self) -> None:
        peers = list(self._peers)
        self._peers.clear()
        self._supervisors.clear()
        self._processes.clear()
        for peer in peers:
            peer.close()
        self._events.add(f"slots given back: generation {self._board.generation}")
        self._finish_close()

    # Heartbeats.

    def beat(self) -> None:
        """Send heartbeats and close peers that are silent for too long."""
        interval_s = self._execution.heartbeat_interval_ms / 1000
        now_s, timeout_s = self._scheduler.time_s(), self._execution.heartbeat_timeout_ms / 1000
        beaten_s, self._beaten_s = self._beaten_s, now_s
        for peer in list(self._peers):
            peer.heard_s = silent_since(peer.heard_s, beaten_s, now_s, interval_s)
            peer.send(Heartbeat())
            if now_s - peer.heard_s > timeout_s:
                peer.close(f"no message for {timeout_s:g} s (heartbeat_timeout)")

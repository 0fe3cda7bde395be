"""Possession of slots: which are registered, which operator process counts, what is lost, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from snapline.protocol.machine import TransitionTable


class Possession(Enum):
    """The driver's hold on its slots."""

    NONE = "NONE"
    HELD = "HELD"
    DOOMED = "DOOMED"
    RELEASING = "RELEASING"


_P = Possession
POSSESSION = TransitionTable(
    "Slots of a job",
    "One lost slot dooms all: Spark has no way to replace one. Doomed slots are given back, and new ones ordered.",
    _P.NONE,
    [
        (_P.NONE, "ordered", _P.HELD),
        (_P.HELD, "slot lost", _P.DOOMED),
        (_P.HELD, "given back", _P.RELEASING),
        (_P.DOOMED, "given back", _P.RELEASING),
        (_P.RELEASING, "released", _P.NONE),
    ],
)


class ProcessState(Enum):
    """What the driver knows about the operator process of a slot."""

    ABSENT = "ABSENT"
    STARTING = "STARTING"
    GREETED = "GREETED"
    READY = "READY"


_O = ProcessState
PROCESS = TransitionTable(
    "Operator process of a slot",
    "A process that was started is awaited, and of no use before its data port has been reached.",
    _O.ABSENT,
    [
        (_O.ABSENT, "start", _O.STARTING),
        (_O.STARTING, "greeting", _O.GREETED),
        (_O.GREETED, "data port reached", _O.READY),
        *[(state, "gone", _O.ABSENT) for state in (_O.STARTING, _O.GREETED, _O.READY)],
    ],
)

Address: TypeAlias = tuple[str, int]

# Effects.


@dataclass(frozen=True, slots=True)
class OrderSlots:
    """Order slots; their supervisors and processes will name this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class GiveSlotsBack:
    """Ask all supervisors to return, have the provider end the rest, then call `released`."""


@dataclass(frozen=True, slots=True)
class StartSlotProcess:
    """Have a supervisor start an operator process, replacing any other."""

    slot: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class KillSlotProcess:
    """Have a supervisor kill this operator process."""

    slot: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ProbeProcess:
    """Dial the data port of a process, then call `process_reached` or `process_unreached`."""

    slot: int
    incarnation: int
    address: Address


@dataclass(frozen=True, slots=True)
class DropProcess:
    """Close the connection of the process of a slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class DropAll:
    """Close all connections."""


@dataclass(frozen=True, slots=True)
class RefusePeer:
    """Refuse the peer that has just greeted."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceReady:
    """Every slot has an idle operator process; `addresses` are their data ports by slot."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class ReportProcessGone:
    """As far as is known, nothing runs in this slot any more."""

    slot: int


@dataclass(frozen=True, slots=True)
class ReportSlotFailure:
    """A slot or its process failed; with `explains`, a failure that was reported and handled before.

    `is_loss` means that a connection ended and nothing else is known: another report may say why `slot` was lost.
    """

    cause: str
    log: str = ""
    explains: bool = False
    slot: int | None = None
    is_loss: bool = False


@dataclass(frozen=True, slots=True)
class ReportNoSlots:
    """There are no slots; `is_fatal` means that a retry would not help."""

    cause: str
    is_fatal: bool


SlotEffect: TypeAlias = (
    OrderSlots
    | GiveSlotsBack
    | StartSlotProcess
    | KillSlotProcess
    | ProbeProcess
    | DropProcess
    | DropAll
    | RefusePeer
    | AnnounceReady
    | ReportProcessGone
    | ReportSlotFailure
    | ReportNoSlots
)


class _Slot:
    """One slot of a generation. `incarnation` numbers its operator processes; only the newest counts."""

    __slots__ = ("address", "host", "incarnation", "index", "is_registered", "pid", "process")

    def __init__(self, index: int) -> None:
        self.index = index
        self.host = ""
        self.is_registered = False
        self.incarnation = 0
        self.process = PROCESS.initial
        self.pid = 0
        self.address: Address | None = None

    def step(self, cause: str) -> None:
        self.process = PROCESS.step(self.process, cause)

    @property
    def has_process(self) -> bool:
        """Whether a process has greeted and is not gone."""
        return self.process in (ProcessState.GREETED, ProcessState.READY)

    def forget_process(self) -> None:
        if self.process is not ProcessState.ABSENT:
            self.step("gone")
        self.address = None


class SlotBoard:
    """Holds as many slots as the job needs; orders them and replaces lost ones when they are wanted.

    Each method takes a fact and returns its effects.
    """

    def __init__(self, count: int) -> None:
        self.possession = POSSESSION.initial
        self.generation = 0
        self._count = count
        self._slots = [_Slot(index) for index in range(count)]
        self._is_wanted = False

    @property
    def live_processes(self) -> list[int]:
        """The slots whose process has greeted and is not gone."""
        return [slot.index for slot in self._slots if slot.has_process]

    # What the job needs.

    def wanted(self) -> list[SlotEffect]:
        """An operator process is needed in every slot."""
        self._is_wanted = True
        return self._advance()

    def unwanted(self) -> None:
        """No one waits for slots any more; held ones stay."""
        self._is_wanted = False

    def wanted_soon(self) -> list[SlotEffect]:
        """Processes will be needed: start missing ones early."""
        return self._start_processes(self._slots) if self.possession is Possession.HELD else []

    def idle(self) -> list[SlotEffect]:
        """No task runs: return doomed slots early."""
        return self._give_back() if self.possession is Possession.DOOMED else []

    def release(self) -> list[SlotEffect]:
        """Return all slots."""
        return self._give_back() if self._is_held else []

    def released(self) -> list[SlotEffect]:
        """All returned slots are gone."""
        gone = [ReportProcessGone(index) for index in self.live_processes]
        self._slots = [_Slot(index) for index in range(self._count)]
        self._step("released")
        return [DropAll(), *gone, *self._advance()]

    @property
    def _is_held(self) -> bool:
        return self.possession in (Possession.HELD, Possession.DOOMED)

    def _advance(self, changed: _Slot | None = None) -> list[SlotEffect]:
        """Take the next step towards ready slots, if they are wanted; `changed` if only this one has changed."""
        if not self._is_wanted or self.possession is Possession.RELEASING:
            return []
        if self.possession is Possession.DOOMED:
            return self._give_back()
        if self.possession is Possession.NONE:
            self._step("ordered")
            self.generation += 1
            return [OrderSlots(self.generation)]
        effects = self._start_processes(self._slots if changed is None else (changed,))
        if all(slot.process is ProcessState.READY for slot in self._slots):
            self._is_wanted = False
            effects.append(AnnounceReady(tuple(slot.address for slot in self._slots if slot.address is not None)))
        return effects

    def _start_processes(self, slots: Iterable[_Slot]) -> list[SlotEffect]:
        effects: list[SlotEffect] = []
        for slot in slots:
            if slot.is_registered and slot.process is ProcessState.ABSENT:
                slot.incarnation += 1
                slot.step("start")
                effects.append(StartSlotProcess(slot.index, slot.incarnation))
        return effects

    def _give_back(self) -> list[SlotEffect]:
        self._step("given back")
        return [GiveSlotsBack()]

    # Greetings.

    def supervisor_greeted(self, generation: int, index: int, host: str) -> list[SlotEffect]:
        """A supervisor identifies itself."""
        refusal = self._refusal(generation, index)
        if refusal is not None:
            return [RefusePeer(refusal)]
        slot = self._slots[index]
        if slot.is_registered or slot.incarnation > 0:
            return [RefusePeer(f"slot {index} is taken")]
        slot.is_registered, slot.host = True, host
        return self._advance(slot)

    def process_greeted(
        self, generation: int, index: int, incarnation: int, pid: int, address: Address
    ) -> list[SlotEffect]:
        """An operator process identifies itself and its data port."""
        refusal = self._refusal(generation, index)
        if refusal is not None:
            return [RefusePeer(refusal)]
        slot = self._slots[index]
        if slot.process is not ProcessState.STARTING or slot.incarnation != incarnation:
            return [RefusePeer(f"operator process {incarnation} of slot {index} is not the one awaited")]
        slot.step("greeting")
        slot.pid, slot.address = pid, address
        return [ProbeProcess(index, incarnation, address), *self._advance(slot)]

    def _refusal(self, generation: int, index: int) -> str | None:
        if not self._is_held or generation != self.generation:
            return f"slot {index} is of generation {generation}, which is no longer wanted"
        return None if 0 <= index < self._count else f"there is no slot {index}"

    def process_reached(self, index: int, incarnation: int) -> list[SlotEffect]:
        """The data port of a process answers."""
        slot = self._slots[index]
        if slot.incarnation != incarnation or slot.process is not ProcessState.GREETED:
            return []
        slot.step("data port reached")
        return self._advance(slot)

    def process_unreached(self, index: int, incarnation: int, error: str) -> list[SlotEffect]:
        """The data port of a process does not answer. Means nothing once the process is given back."""
        slot = self._slots[index]
        if slot.incarnation != incarnation or slot.address is None or not self._is_held:
            return []
        host, port = slot.address
        cause = (
            f"slot {index} cannot be reached at {host}:{port}: {error}; slots exchange data there, so open the "
            "network between them, or set `host` to an address at which each machine is reached"
        )
        return [*self.kill(index), ReportSlotFailure(cause)]

    # Losses.

    def kill(self, index: int) -> list[SlotEffect]:
        """Kill a misbehaving process; another starts when slots are next wanted."""
        slot, effects = self._slots[index], list[SlotEffect]()
        if slot.is_registered:
            effects.append(KillSlotProcess(index, slot.incarnation))
        return effects + self._drop_process(slot)

    def process_ended(self, index: int, incarnation: int, error: str, log: str) -> list[SlotEffect]:
        """The supervisor reports that a process ended by itself or did not start."""
        slot = self._slots[index]
        if incarnation > slot.incarnation or self.possession is Possession.RELEASING:
            return []
        cause = f"the operator process of slot {index} on {slot.host} has ended: {error}"
        if incarnation < slot.incarnation:
            return [ReportSlotFailure(cause, log, explains=True, slot=index)]
        return [*self._drop_process(slot), ReportProcessGone(index), ReportSlotFailure(cause, log, slot=index)]

    def process_lost(self, index: int, reason: str, *, may_live: bool) -> list[SlotEffect]:
        """The connection of the current process ended; `may_live` if this side closed it."""
        if not self._is_held:
            return []
        slot, effects = self._slots[index], list[SlotEffect]()
        cause = f"the operator process of slot {index} on {slot.host} (process {slot.pid}) is lost: {reason}"
        slot.forget_process()
        if may_live and slot.is_registered:
            effects.append(KillSlotProcess(index, slot.incarnation))
        return [*effects, ReportProcessGone(index), ReportSlotFailure(cause, slot=index, is_loss=True)]

    def supervisor_lost(self, index: int, reason: str) -> list[SlotEffect]:
        """The connection of a supervisor has ended."""
        if not self._is_held:
            return []
        slot = self._slots[index]
        slot.is_registered = False
        self._doom()
        cause = f"slot {index} on {slot.host} is lost: {reason}"
        report = ReportSlotFailure(cause, slot=index, is_loss=True)
        return [*self._drop_process(slot), ReportProcessGone(index), report]

    def provider_failed(self, generation: int, error: str, is_fatal: bool) -> list[SlotEffect]:
        """The slots of a generation have ended or never started; `is_fatal` if a retry would not help."""
        if generation != self.generation or self.possession is Possession.NONE:
            return []
        if self.possession is Possession.RELEASING:
            return [ReportSlotFailure(error, explains=True)]
        self._doom()
        return [ReportNoSlots(error, is_fatal)]

    def start_timed_out(self, timeout_s: float) -> list[SlotEffect]:
        """Tasks should run by now: give up unready slots and say what to check. No effects if all are ready."""
        registered = [slot for slot in self._slots if slot.is_registered]
        unready = [slot for slot in registered if slot.process is not ProcessState.READY]
        effects = [effect for slot in unready for effect in self.kill(slot.index)]
        if len(registered) < self._count:
            self._doom()
            cause = (
                f"{len(registered)} of the {self._count} slots registered within {timeout_s:g} s (start_timeout); "
                "check that the cluster has room for all of them at the same time, and that executors reach the "
                "driver at spark.driver.host"
            )
            return [*effects, ReportSlotFailure(cause)]
        if unready:
            names = ", ".join(f"{slot.index} on {slot.host}" for slot in unready)
            cause = (
                f"all {self._count} slots registered, but operator processes did not come up within {timeout_s:g} s "
                f"(start_timeout): slots {names}; see the executors' standard error"
            )
            return [*effects, ReportSlotFailure(cause)]
        return []

    def _drop_process(self, slot: _Slot) -> list[SlotEffect]:
        dropped: list[SlotEffect] = [DropProcess(slot.index)] if slot.has_process else []
        slot.forget_process()
        return dropped

    def _doom(self) -> None:
        if self.possession is Possession.HELD:
            self._step("slot lost")

    def _step(self, cause: str) -> None:
        self.possession = POSSESSION.step(self.possession, cause)

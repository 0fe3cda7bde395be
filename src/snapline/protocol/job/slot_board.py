"""Possession of slots: who has registered, whose operator process counts, what is lost, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from snapline.protocol.machine import Story, TransitionTable, recorded


class Possession(Enum):
    """What the driver has of slots."""

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
    """What the driver knows of the operator process of a slot."""

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

# Events.


@dataclass(frozen=True, slots=True)
class SlotsWanted:
    """An operator process is needed in every slot."""


@dataclass(frozen=True, slots=True)
class SlotsUnwanted:
    """Nobody waits for slots any more; those that are held stay."""


@dataclass(frozen=True, slots=True)
class SlotsWantedSoon:
    """Processes will be needed: those that are missing may be started early."""


@dataclass(frozen=True, slots=True)
class SlotsIdle:
    """No task runs: doomed slots may be given back early."""


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """All slots are to be given back."""


@dataclass(frozen=True, slots=True)
class SlotsReleased:
    """Nothing is left of the slots that were given back."""


@dataclass(frozen=True, slots=True)
class SupervisorGreeted:
    """A supervisor says which slot it is."""

    generation: int
    slot: int
    host: str


@dataclass(frozen=True, slots=True)
class ProcessGreeted:
    """An operator process says which one it is, and where its data port is."""

    generation: int
    slot: int
    incarnation: int
    pid: int
    address: Address


@dataclass(frozen=True, slots=True)
class ProcessReached:
    """The data port of a process answers."""

    slot: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ProcessUnreached:
    """The data port of a process does not answer."""

    slot: int
    incarnation: int
    error: str


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The supervisor reports that a process has ended by itself, or could not be started."""

    slot: int
    incarnation: int
    error: str
    log: str


@dataclass(frozen=True, slots=True)
class ProcessLost:
    """The connection of the process that counts has ended; `may_live` if only this side has hung up."""

    slot: int
    reason: str
    may_live: bool


@dataclass(frozen=True, slots=True)
class SupervisorLost:
    """The connection of a supervisor has ended."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True)
class KillRequested:
    """A process does not do what it should; another is started when slots are next wanted."""

    slot: int


@dataclass(frozen=True, slots=True)
class ProviderFailed:
    """The slots of a generation have ended, or never began; `is_fatal` if another try would not help."""

    generation: int
    error: str
    is_fatal: bool


@dataclass(frozen=True, slots=True)
class StartTimedOut:
    """Tasks should run by now."""

    timeout_ms: int


SlotEvent: TypeAlias = (
    SlotsWanted
    | SlotsUnwanted
    | SlotsWantedSoon
    | SlotsIdle
    | ReleaseRequested
    | SlotsReleased
    | SupervisorGreeted
    | ProcessGreeted
    | ProcessReached
    | ProcessUnreached
    | ProcessEnded
    | ProcessLost
    | SupervisorLost
    | KillRequested
    | ProviderFailed
    | StartTimedOut
)

# Effects.


@dataclass(frozen=True, slots=True)
class OrderSlots:
    """Order slots; their supervisors and processes will name this generation."""

    generation: int


@dataclass(frozen=True, slots=True)
class GiveSlotsBack:
    """Tell all supervisors to return, have the provider end the rest, and report `SlotsReleased`."""


@dataclass(frozen=True, slots=True)
class StartSlotProcess:
    """Have a supervisor start an operator process in place of any other."""

    slot: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class KillSlotProcess:
    """Have a supervisor kill this operator process."""

    slot: int
    incarnation: int


@dataclass(frozen=True, slots=True)
class ProbeProcess:
    """Dial the data port of a process; report `ProcessReached` or `ProcessUnreached`."""

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
    """Turn away whoever has just greeted."""

    reason: str


@dataclass(frozen=True, slots=True)
class AnnounceReady:
    """Every slot has an operator process that waits for tasks; `addresses` are their data ports by slot."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class ReportProcessGone:
    """Nothing runs in this slot any more, as far as anybody can know."""

    slot: int


@dataclass(frozen=True, slots=True)
class ReportSlotFailure:
    """A slot or its process is lost; `explains` a loss that was reported before and has been dealt with."""

    cause: str
    log: str = ""
    explains: bool = False


@dataclass(frozen=True, slots=True)
class ReportNoSlots:
    """There are no slots; `is_fatal` if another try would not help."""

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
    """One slot of a generation. `incarnation` counts its operator processes; only the last one counts."""

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
    """Keeps as many slots as the job needs, orders them, and replaces what is lost, when they are wanted."""

    def __init__(self, count: int) -> None:
        self.possession = POSSESSION.initial
        self.generation = 0
        self.story = Story()
        self._count = count
        self._slots = [_Slot(index) for index in range(count)]
        self._is_wanted = False

    @property
    def live_processes(self) -> list[int]:
        """The slots whose process has greeted and is not gone."""
        return [slot.index for slot in self._slots if slot.has_process]

    @recorded
    def handle(self, event: SlotEvent) -> list[SlotEffect]:
        """Take one fact, return the orders that follow."""
        match event:
            case SlotsWanted():
                self._is_wanted = True
                return self._advance()
            case SlotsUnwanted():
                self._is_wanted = False
                return []
            case SlotsWantedSoon():
                return self._start_processes() if self.possession is Possession.HELD else []
            case SlotsIdle():
                return self._give_back() if self.possession is Possession.DOOMED else []
            case ReleaseRequested():
                return self._give_back() if self._is_held else []
            case SlotsReleased():
                return self._on_released()
            case SupervisorGreeted() | ProcessGreeted():
                return self._on_greeted(event)
            case ProcessReached(index, incarnation):
                slot = self._slots[index]
                if slot.incarnation != incarnation or slot.process is not ProcessState.GREETED:
                    return []
                slot.step("data port reached")
                return self._advance()
            case ProcessUnreached(index, incarnation, error):
                return self._on_unreached(self._slots[index], incarnation, error)
            case ProcessEnded():
                return self._on_ended(self._slots[event.slot], event)
            case ProcessLost(index, reason, may_live):
                return self._on_process_lost(self._slots[index], reason, may_live) if self._is_held else []
            case SupervisorLost(index, reason):
                return self._on_supervisor_lost(self._slots[index], reason) if self._is_held else []
            case KillRequested(index):
                return self._kill(self._slots[index])
            case ProviderFailed(generation, error, is_fatal):
                if generation != self.generation or not self._is_held:
                    return []
                self._doom()
                return [ReportNoSlots(error, is_fatal)]
            case StartTimedOut(timeout_ms):
                return self._on_start_timed_out(timeout_ms / 1000)

    @property
    def _is_held(self) -> bool:
        return self.possession in (Possession.HELD, Possession.DOOMED)

    def _advance(self) -> list[SlotEffect]:
        """Take the next step towards slots that are ready, if they are wanted."""
        if not self._is_wanted or self.possession is Possession.RELEASING:
            return []
        if self.possession is Possession.DOOMED:
            return self._give_back()
        if self.possession is Possession.NONE:
            self._step("ordered")
            self.generation += 1
            return [OrderSlots(self.generation)]
        effects = self._start_processes()
        if all(slot.process is ProcessState.READY for slot in self._slots):
            self._is_wanted = False
            effects.append(AnnounceReady(tuple(slot.address for slot in self._slots if slot.address is not None)))
        return effects

    def _start_processes(self) -> list[SlotEffect]:
        effects: list[SlotEffect] = []
        for slot in self._slots:
            if slot.is_registered and slot.process is ProcessState.ABSENT:
                slot.incarnation += 1
                slot.step("start")
                effects.append(StartSlotProcess(slot.index, slot.incarnation))
        return effects

    def _give_back(self) -> list[SlotEffect]:
        self._step("given back")
        return [GiveSlotsBack()]

    def _on_released(self) -> list[SlotEffect]:
        gone = [ReportProcessGone(index) for index in self.live_processes]
        self._slots = [_Slot(index) for index in range(self._count)]
        self._step("released")
        return [DropAll(), *gone, *self._advance()]

    # Greetings.

    def _on_greeted(self, hello: SupervisorGreeted | ProcessGreeted) -> list[SlotEffect]:
        if not self._is_held or hello.generation != self.generation:
            return [RefusePeer(f"slot {hello.slot} is of generation {hello.generation}, which is no longer wanted")]
        if not 0 <= hello.slot < self._count:
            return [RefusePeer(f"there is no slot {hello.slot}")]
        slot = self._slots[hello.slot]
        if isinstance(hello, SupervisorGreeted):
            if slot.is_registered or slot.incarnation > 0:
                return [RefusePeer(f"slot {hello.slot} is taken")]
            slot.is_registered, slot.host = True, hello.host
            return self._advance()
        if slot.process is not ProcessState.STARTING or slot.incarnation != hello.incarnation:
            return [RefusePeer(f"operator process {hello.incarnation} of slot {hello.slot} is not the one awaited")]
        slot.step("greeting")
        slot.pid, slot.address = hello.pid, hello.address
        return [ProbeProcess(slot.index, slot.incarnation, hello.address), *self._advance()]

    def _on_unreached(self, slot: _Slot, incarnation: int, error: str) -> list[SlotEffect]:
        if slot.incarnation != incarnation or slot.address is None:
            return []
        host, port = slot.address
        cause = (
            f"slot {slot.index} cannot be reached at {host}:{port}: {error}; slots exchange data there, so open the "
            "network between them, or set `host` to an address at which each machine is reached"
        )
        return [*self._kill(slot), ReportSlotFailure(cause)]

    # Losses.

    def _kill(self, slot: _Slot) -> list[SlotEffect]:
        effects: list[SlotEffect] = []
        if slot.is_registered:
            effects.append(KillSlotProcess(slot.index, slot.incarnation))
        if slot.has_process:
            effects.append(DropProcess(slot.index))
        slot.forget_process()
        return effects

    def _on_ended(self, slot: _Slot, ended: ProcessEnded) -> list[SlotEffect]:
        if ended.incarnation > slot.incarnation or self.possession is Possession.RELEASING:
            return []
        cause = f"the operator process of slot {slot.index} on {slot.host} has ended: {ended.error}"
        if ended.incarnation < slot.incarnation:
            return [ReportSlotFailure(cause, ended.log, explains=True)]
        dropped: list[SlotEffect] = [DropProcess(slot.index)] if slot.has_process else []
        slot.forget_process()
        return [*dropped, ReportProcessGone(slot.index), ReportSlotFailure(cause, ended.log)]

    def _on_process_lost(self, slot: _Slot, reason: str, may_live: bool) -> list[SlotEffect]:
        cause = f"the operator process of slot {slot.index} on {slot.host} (process {slot.pid}) is lost: {reason}"
        slot.forget_process()
        effects: list[SlotEffect] = []
        if may_live and slot.is_registered:
            effects.append(KillSlotProcess(slot.index, slot.incarnation))
        return [*effects, ReportProcessGone(slot.index), ReportSlotFailure(cause)]

    def _on_supervisor_lost(self, slot: _Slot, reason: str) -> list[SlotEffect]:
        dropped: list[SlotEffect] = [DropProcess(slot.index)] if slot.has_process else []
        slot.is_registered = False
        slot.forget_process()
        self._doom()
        cause = f"slot {slot.index} on {slot.host} is lost: {reason}"
        return [*dropped, ReportProcessGone(slot.index), ReportSlotFailure(cause)]

    def _on_start_timed_out(self, timeout_s: float) -> list[SlotEffect]:
        """Give up what is not ready, and say what to check; nothing if all slots are ready."""
        registered = [slot for slot in self._slots if slot.is_registered]
        unready = [slot for slot in registered if slot.process is not ProcessState.READY]
        effects = [effect for slot in unready for effect in self._kill(slot)]
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

    def _doom(self) -> None:
        if self.possession is Possession.HELD:
            self._step("slot lost")

    def _step(self, cause: str) -> None:
        self.possession = POSSESSION.step(self.possession, cause)

"""The slots of a job: who has registered, whose operator process is there, who was lost."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from snapline.config import Execution
from snapline.errors import PeerError
from snapline.runtime.master.control_server import PeerConnection
from snapline.runtime.master.job_log import EventLog
from snapline.runtime.master.slot_generations import CLOSE_TIMEOUT_S, SlotGenerations
from snapline.runtime.network.admission import PROBE
from snapline.runtime.wire.auth import async_client_handshake
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

PROBE_TIMEOUT_S = 5.0
DEATH_IS_TOLD_S = 0.5


class Possession(Enum):
    """What the driver has of slots."""

    NONE = "NONE"
    HELD = "HELD"
    DOOMED = "DOOMED"
    """One is lost, so all are to be given back: Spark has no way to replace one."""
    RELEASING = "RELEASING"


@dataclass(slots=True)
class Slot:
    """One slot of a generation. `incarnation` counts its operator processes; the last one is the only one that counts.

    `is_starting` says that it was started and has not been heard of; `is_reachable` that its data port answers.
    """

    index: int
    supervisor: PeerConnection | None = None
    host: str = ""
    incarnation: int = 0
    is_starting: bool = False
    worker: PeerConnection | None = None
    process_pid: int = 0
    address: tuple[str, int] | None = None
    is_reachable: bool = False

    @property
    def is_ready(self) -> bool:
        return self.worker is not None and self.is_reachable

    def forget_process(self) -> None:
        self.worker, self.address = None, None
        self.is_starting = self.is_reachable = False


class SlotsOwner(Protocol):
    """Whoever uses the slots. All calls come on the loop."""

    def slots_ready(self) -> None:
        """Every slot that was asked for has an operator process that waits for tasks."""

    def failure_explained(self, cause: str, log: str) -> None:
        """Why something was lost that has been replaced already."""

    def slot_failed(self, cause: str, log: str) -> None:
        """A slot or its operator process is lost. May be told twice of the same one, the second time better."""

    def slots_failed(self, cause: str, is_fatal: bool) -> None:
        """There are no slots; `is_fatal` if another try would not help."""

    def process_unable(self, cause: str) -> None:
        """An operator process says that it cannot run the job."""

    def process_gone(self, slot: int) -> None:
        """Nothing runs in this slot any more, as far as anybody can tell."""

    def process_said(self, slot: int, message: ToMaster) -> None:
        """An operator process says something that is about its tasks. `PeerError` if it may not."""


class Slots:
    """Keeps as many slots as the job needs, orders them, and replaces what is lost, when asked to."""

    def __init__(
        self, count: int, execution: Execution, orders: SlotGenerations, owner: SlotsOwner, events: EventLog
    ) -> None:
        self.possession = Possession.NONE
        self._count = count
        self._execution = execution
        self._orders = orders
        self._owner = owner
        self._events = events
        self._slots = [Slot(index) for index in range(count)]
        self._connections: dict[PeerConnection, Slot] = {}
        self._is_wanted = False
        self._is_closed = False
        self._probes: set[asyncio.Task[None]] = set()
        self._beaten_s = asyncio.get_running_loop().time()
        self._released = asyncio.Event()

    # Having slots.

    def acquire(self) -> None:
        """Have an operator process in every slot; `slots_ready` or a failure follows, unless `give_up` comes first."""
        self._is_wanted = not self._is_closed
        self._advance()

    def give_up(self) -> None:
        self._is_wanted = False

    def addresses(self) -> list[tuple[str, int]]:
        """The data ports of all slots that are ready, by slot."""
        return [slot.address for slot in self._slots if slot.address is not None]

    def _advance(self) -> None:
        if not self._is_wanted or self.possession is Possession.RELEASING:
            return
        if self.possession is Possession.DOOMED:
            self.release()
            return
        if self.possession is Possession.NONE:
            self.possession = Possession.HELD
            self._orders.order()
            self._events.add(f"slots ordered: generation {self._orders.generation}, {self._count} slots")
            return
        self._start_processes()
        if all(slot.is_ready for slot in self._slots):
            self._is_wanted = False
            self._owner.slots_ready()

    def warm_up(self) -> None:
        """Begin early to start operator processes that will be needed."""
        if self.possession is Possession.HELD:
            self._start_processes()

    def _start_processes(self) -> None:
        for slot in self._slots:
            if slot.supervisor is not None and slot.worker is None and not slot.is_starting:
                slot.incarnation += 1
                slot.is_starting = True
                slot.supervisor.send(StartProcess(slot.incarnation))

    def release_if_doomed(self) -> None:
        """Begin early to give back what is of no use any more."""
        if self.possession is Possession.DOOMED:
            self.release()

    def release(self) -> None:
        """Give all slots back."""
        if self.possession in (Possession.NONE, Possession.RELEASING):
            return
        self.possession = Possession.RELEASING
        self._released.clear()
        for slot in self._slots:
            if slot.supervisor is not None:
                slot.supervisor.send(Drain())
        self._orders.release(self._are_released)

    def _are_released(self) -> None:
        for connection in list(self._connections):
            connection.close()
        self._connections.clear()
        gone = self.live_processes()
        self._slots = [Slot(index) for index in range(self._count)]
        self.possession = Possession.NONE
        self._events.add(f"slots given back: generation {self._orders.generation}")
        self._released.set()
        for index in gone:
            self._owner.process_gone(index)
        self._advance()

    async def close(self) -> None:
        """Give all slots back and end the provider."""
        self._is_wanted = False
        self._is_closed = True
        self.release()
        if self.possession is Possession.RELEASING:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._released.wait()
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)
        await self._orders.close()

    def explain_delay(self) -> str | None:
        """Why not all slots are ready, with what to check; and give up those that are not. None if all are."""
        registered = [slot for slot in self._slots if slot.supervisor is not None]
        unreached = [slot for slot in registered if not slot.is_ready]
        for slot in unreached:
            self.kill_process(slot.index)
        timeout_s = self._execution.start_timeout_ms / 1000
        if len(registered) < self._count:
            self._doom()
            return (
                f"{len(registered)} of the {self._count} slots registered within {timeout_s:g} s (start_timeout); "
                "check that the cluster has room for all of them at the same time, and that executors reach the "
                "driver at spark.driver.host"
            )
        if unreached:
            names = ", ".join(f"{slot.index} on {slot.host}" for slot in unreached)
            return (
                f"all {self._count} slots registered, but operator processes did not come up within {timeout_s:g} s "
                f"(start_timeout): slots {names}; see the executors' standard error"
            )
        return None

    # Messages.

    def send(self, slot: int, message: Message) -> bool:
        """Send to the operator process of a slot; false if there is none."""
        worker = self._slots[slot].worker
        if worker is not None:
            worker.send(message)
        return worker is not None

    def live_processes(self) -> list[int]:
        return [slot.index for slot in self._slots if slot.worker is not None]

    def kill_process(self, index: int) -> None:
        """Kill an operator process; another is started when slots are next asked for."""
        slot = self._slots[index]
        worker = slot.worker
        slot.forget_process()
        if slot.supervisor is not None:
            slot.supervisor.send(KillProcess(slot.incarnation))
        if worker is not None:
            self._drop(worker)

    def _drop(self, connection: PeerConnection) -> None:
        self._connections.pop(connection, None)
        connection.close()

    # What the port reports.

    @property
    def secret(self) -> bytes | None:
        return self._orders.secret

    def greeted(self, connection: PeerConnection, hello: SupervisorHello | ProcessHello) -> str | None:
        if self.possession not in (Possession.HELD, Possession.DOOMED) or hello.generation != self._orders.generation:
            return f"slot {hello.slot} is of generation {hello.generation}, which is no longer wanted"
        if not 0 <= hello.slot < self._count:
            return f"there is no slot {hello.slot}"
        slot = self._slots[hello.slot]
        if isinstance(hello, SupervisorHello):
            if slot.supervisor is not None or slot.incarnation > 0:
                return f"slot {hello.slot} is taken"
            slot.supervisor, slot.host = connection, hello.host
        else:
            if slot.worker is not None or not slot.is_starting or slot.incarnation != hello.incarnation:
                return f"operator process {hello.incarnation} of slot {hello.slot} is not the one that is awaited"
            slot.worker, slot.process_pid = connection, hello.pid
            slot.address = (hello.host, hello.port)
            slot.is_starting = False
            self._start_probe(slot, connection, slot.address)
        self._connections[connection] = slot
        self._advance()
        return None

    def unable(self, error: str) -> None:
        self._owner.process_unable(error)

    def received(self, connection: PeerConnection, message: ToMaster) -> None:
        slot = self._connections.get(connection)
        if slot is None or isinstance(message, Heartbeat):
            return
        if slot.supervisor is connection:
            if not isinstance(message, ProcessDied):
                raise PeerError(f"a supervisor may not say {type(message).__name__}")
            self._process_died(slot, message)
        elif isinstance(message, ProcessUnable):
            self._owner.process_unable(f"slot {slot.index} on {slot.host}: {message.error}")
        else:
            self._owner.process_said(slot.index, message)

    def closed(self, connection: PeerConnection, reason: str) -> None:
        slot = self._connections.pop(connection, None)
        if slot is None or self.possession not in (Possession.HELD, Possession.DOOMED):
            return
        if slot.supervisor is connection:
            self._lose_slot(slot, reason)
        elif slot.worker is connection:
            cause = f"the operator process of slot {slot.index} on {slot.host} (process {slot.process_pid}) is lost"
            slot.forget_process()
            if connection.close_reason and slot.supervisor is not None:
                slot.supervisor.send(KillProcess(slot.incarnation))  # it may run on, and only we have hung up
            self._owner.process_gone(slot.index)
            self._owner.slot_failed(f"{cause}: {reason}", "")

    def _process_died(self, slot: Slot, message: ProcessDied) -> None:
        if message.incarnation > slot.incarnation or self.possession is Possession.RELEASING:
            return
        cause = f"the operator process of slot {slot.index} on {slot.host} has ended: {message.error}"
        if message.incarnation < slot.incarnation:
            self._owner.failure_explained(cause, message.log)
            return
        worker = slot.worker
        slot.forget_process()
        if worker is not None:
            self._drop(worker)
        self._owner.process_gone(slot.index)
        self._owner.slot_failed(cause, message.log)

    def _lose_slot(self, slot: Slot, reason: str) -> None:
        worker = slot.worker
        slot.supervisor = None
        slot.forget_process()
        if worker is not None:
            self._drop(worker)
        self._doom()
        self._owner.process_gone(slot.index)
        self._owner.slot_failed(f"slot {slot.index} on {slot.host} is lost: {reason}", "")

    def provider_failed(self, generation: int, error: str, is_fatal: bool) -> None:
        """The provider says that its slots have ended, or never began."""
        if generation == self._orders.generation and self.possession in (Possession.HELD, Possession.DOOMED):
            self._doom()
            self._owner.slots_failed(error, is_fatal)

    def _doom(self) -> None:
        if self.possession is Possession.HELD:
            self.possession = Possession.DOOMED

    # Watching over them.

    def beat(self) -> None:
        """Tell everybody that the driver is there, and find out who is not."""
        interval_s = self._execution.heartbeat_interval_ms / 1000
        now_s, timeout_s = asyncio.get_running_loop().time(), self._execution.heartbeat_timeout_ms / 1000
        # After a standstill of this very process nobody is late: what they said waits to be read.
        was_still = now_s - self._beaten_s > interval_s + timeout_s / 2
        self._beaten_s = now_s
        for connection in list(self._connections):
            if was_still:
                connection.heard_s = now_s
            connection.send(Heartbeat())
            if now_s - connection.heard_s > timeout_s:
                connection.close(f"nothing was heard of it for {timeout_s:g} s (heartbeat_timeout)")

    def _start_probe(self, slot: Slot, connection: PeerConnection, address: tuple[str, int]) -> None:
        secret = self._orders.secret
        assert secret is not None
        probe = asyncio.get_running_loop().create_task(self._probe(slot, connection, address, secret))
        self._probes.add(probe)
        probe.add_done_callback(self._probe_over)

    def _probe_over(self, probe: asyncio.Task[None]) -> None:
        self._probes.discard(probe)
        if not probe.cancelled():
            probe.result()

    async def _probe(self, slot: Slot, connection: PeerConnection, address: tuple[str, int], secret: bytes) -> None:
        """Dial back, so that a data port that nobody reaches is told of at once, and not as a job that hangs."""
        host, port = address
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await _dial(host, port, secret)
        except (OSError, TimeoutError, PeerError) as error:
            # If the process has died, that is the reason, and somebody is about to tell of it.
            await asyncio.sleep(DEATH_IS_TOLD_S)
            if slot.worker is connection:
                reason = str(error) or f"no answer within {PROBE_TIMEOUT_S:g} s"
                self.kill_process(slot.index)
                cause = (
                    f"slot {slot.index} cannot be reached at {host}:{port}: {reason}; slots exchange data there, so "
                    "open the network between them, or set `host` to an address at which each machine is reached"
                )
                self._owner.slot_failed(cause, "")
            return
        if slot.worker is connection:
            slot.is_reachable = True
            self._advance()


async def _dial(host: str, port: int, secret: bytes) -> None:
    """Connect to a data port of the job and leave again."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        await async_client_handshake(reader, writer, secret, PROBE)
        await reader.read()  # until it has let go, having seen who this is
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

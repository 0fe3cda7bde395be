"""Connections between simulated drivers and slots that may break, with messages lost, late or doubled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.scenario import Fault
from snapline.errors import PeerError
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    Decline,
    TaskReport,
    TriggerCheckpoint,
)
from snapline.runtime.master.slots import Slots
from snapline.runtime.wire import control_messages as m
from snapline.runtime.wire.credentials import Credentials

LOOSE = (TriggerCheckpoint, CheckpointCompleted, CheckpointAborted, Acknowledge, Decline)
"""Messages about checkpoints, each of which may be lost, late or doubled. Losing any other breaks the connection."""

UNORDERED = (*LOOSE, TaskReport)
"""Messages that others may overtake when they are late; any other late message delays those behind it."""


class Network:
    """Connects slots to drivers. A process that is cut off sends and receives nothing until its link is back."""

    def __init__(self, kernel: Kernel, faults: frozenset[Fault]) -> None:
        self.is_quiet = False
        self.kernel = kernel
        self._faults = faults
        self.awaited: dict[str, int] = {}
        """The operator process each supervisor was last asked to start, by the supervisor's process."""
        self._cut_until: dict[str, int] = {}

    def cut(self, process: Process, until_ms: int) -> None:
        self._cut_until[process.name] = until_ms

    def reachable_ms(self, *processes: Process) -> int:
        """Returns when all of these can be reached."""
        return max(self._cut_until.get(process.name, 0) for process in processes)

    def happens(self, fault: Fault, probability: float) -> bool:
        if self.is_quiet or fault not in self._faults or not self.kernel.chance(probability):
            return False
        self.kernel.cover(f"fault: {fault.value}")
        return True


class Direction:
    """One direction of a connection: delivers in order, except for messages a fault delays."""

    def __init__(self, network: Network, source: Process, target: Process, deliver: Callable[[Any], None]) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._deliver = deliver
        self._last_ms = 0

    def send(self, message: m.Message) -> bool:
        """Returns False if the message was lost and the connection has to break."""
        network, kernel = self._network, self._network.kernel
        is_loose = isinstance(message, LOOSE)
        if network.happens(Fault.MESSAGE_LOST, 0.04 if is_loose else 0.004):
            return is_loose
        at_ms = max(kernel.now_ms + kernel.between(0, 20), network.reachable_ms(self._source, self._target))
        if isinstance(message, m.ProcessHello) and network.happens(Fault.SLOT_CRASH, 0.25):
            # A struggling machine: the process greets late and dies soon.
            at_ms += kernel.between(300, 1500)
            kernel.after(kernel.between(20, 300), None, self._source.die)
        may_be_overtaken = isinstance(message, UNORDERED)
        is_late = network.happens(Fault.MESSAGE_LATE, 0.08 if may_be_overtaken else 0.01)
        late_ms = kernel.between(50, 1200) if is_late else 0
        if is_late and may_be_overtaken:
            kernel.after(at_ms + late_ms - kernel.now_ms, self._target, self._deliver, message)
            return True
        at_ms = self._last_ms = max(at_ms + late_ms, self._last_ms)
        kernel.after(at_ms - kernel.now_ms, self._target, self._deliver, message)
        if isinstance(message, TaskReport) and message.error and not network.is_quiet and kernel.chance(0.5):
            # A failing task reports it again, perhaps in the next attempt.
            kernel.after(at_ms - kernel.now_ms + kernel.between(100, 800), self._target, self._deliver, message)
        if is_loose and network.happens(Fault.MESSAGE_DOUBLED, 0.35):
            kernel.after(at_ms - kernel.now_ms + kernel.between(0, 400), self._target, self._deliver, message)
        return True

    def close(self, closed: Callable[[str], None], reason: str) -> None:
        """End the connection at the other end, behind all messages under way."""
        network, kernel = self._network, self._network.kernel
        at_ms = max(kernel.now_ms, self._last_ms, network.reachable_ms(self._source, self._target))
        kernel.after(at_ms - kernel.now_ms + 1, self._target, closed, reason)


class Connection:
    """A connection of a slot's process to its driver: `ControlLink` on one side, `Peer` on the other.

    What is under way when one side hangs up still arrives at the other, ahead of the end.
    """

    def __init__(
        self, network: Network, process: Process, driver: Process, slots: Slots, credentials: Credentials
    ) -> None:
        self.host = process.name
        self.heard_s = network.kernel.now_ms / 1000
        self.close_reason = ""
        self._network = network
        self._kernel = network.kernel
        self._process = process
        self._driver = driver
        self._slots = slots
        self._credentials = credentials
        self._up = Direction(network, process, driver, self._at_driver)
        self._down = Direction(network, driver, process, self._at_slot)
        self._received: Callable[[Any], None] | None = None
        self._closed: Callable[[str], None] | None = None
        self._is_welcome = False
        self._is_closed_here = False
        self._is_closed_there = False

    @property
    def link(self) -> Link:
        """The slot's end."""
        return Link(self)

    # The slot's side.

    def start(self, received: Callable[[Any], None], closed: Callable[[str], None]) -> None:
        self._received, self._closed = received, closed
        self._process.on_death.append(lambda: self.slot_hung_up("the connection was closed"))
        self._driver.on_death.append(lambda: self._driver_hung_up("it is gone"))

    def send_up(self, message: m.Message) -> None:
        if self._is_closed_there:
            raise PeerError("the connection is gone")
        if not self._up.send(m.decode_to_master(m.encode(message))):
            self._break()

    def slot_hung_up(self, reason: str) -> None:
        if not self._is_closed_there:
            self._is_closed_there = True
            self._up.close(self._ended_at_driver, reason)

    def _at_slot(self, message: m.Message) -> None:
        if self._received is not None and not self._is_closed_there:
            self._received(message)

    def _ended_at_slot(self, reason: str) -> None:
        if self._closed is not None and not self._is_closed_there:
            self._is_closed_there = True
            self._closed(reason)

    # The driver's side.

    def send(self, message: m.Message) -> None:
        if self._is_closed_here:
            return
        if isinstance(message, m.StartProcess):
            self._network.awaited[self._process.name] = message.incarnation
        if not self._down.send(message):
            self._break()

    def close(self, reason: str = "") -> None:
        if not self._is_closed_here:
            self.close_reason = reason
            self._driver_hung_up(reason)
            self._kernel.after(0, self._driver, self._slots.closed, self, reason)

    def _driver_hung_up(self, reason: str) -> None:
        if not self._is_closed_here:
            self._is_closed_here = True
            self._down.close(self._ended_at_slot, reason)

    def _break(self) -> None:
        """Break the connection for both sides."""
        self._down.close(self._ended_at_slot, "the connection broke")
        self._up.close(self._ended_at_driver, "the connection broke")

    def _at_driver(self, message: m.ToMaster) -> None:
        if self._is_closed_here:
            return
        slots = self._slots
        self.heard_s = self._kernel.now_ms / 1000
        if isinstance(message, m.SupervisorHello | m.ProcessHello):
            refusal = "other credentials" if slots.credentials != self._credentials else slots.greeted(self, message)
            self._is_welcome = refusal is None
            if refusal is not None:
                self._kernel.cover("peer refused")
                self._driver_hung_up(refusal)
            elif isinstance(message, m.ProcessHello):
                self._check_awaited(message)
            return
        try:
            slots.received(self, message)
        except PeerError as error:
            self.close(str(error))

    def _check_awaited(self, hello: m.ProcessHello) -> None:
        awaited = self._network.awaited.get(self._process.name.rpartition(".")[0])
        if awaited != hello.incarnation:
            raise self._kernel.violated(
                f"operator process {hello.incarnation} of slot {hello.slot} was accepted, but {awaited} started last"
            )

    def _ended_at_driver(self, reason: str) -> None:
        if not self._is_closed_here:
            self._is_closed_here = True
            if self._is_welcome:
                self._slots.closed(self, reason)


class Link:
    """`ControlLink` over a simulated connection."""

    def __init__(self, connection: Connection) -> None:
        self.start = connection.start
        self.send = connection.send_up
        self._connection = connection

    def close(self) -> None:
        self._connection.slot_hung_up("it closed the connection")

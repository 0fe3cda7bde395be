"""Connections between simulated slots: production channels over a simulated transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.errors import FencedError, PeerError
from snapline.runtime.network.channels import RemoteChannel, RemoteInput
from snapline.runtime.network.item_codec import ChannelKey
from snapline.runtime.network.output_queue import ChannelLimits
from snapline.runtime.network.region_channels import Lost, Wiring
from snapline.runtime.wire.channel_items import ItemKind

ITEMS_PER_TRANSFER = 3
MAX_TRANSFER_MS = 20
_POLL_MS = 15


class DataNetwork:
    """All data ports, by number."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.planes: dict[int, SimDataPlane] = {}

    def open(self, process: Process, slot: int, limits: ChannelLimits) -> SimDataPlane:
        plane = SimDataPlane(self, process, slot, limits)
        self.planes[plane.address[1]] = plane
        return plane


class SimDataPlane:
    """Replaces the exchange of an operator process."""

    credentials: Any = None
    flusher: Any = None
    """Nothing is held back: the simulated jobs have no flush timeout."""

    def __init__(self, network: DataNetwork, process: Process, slot: int, limits: ChannelLimits) -> None:
        self.network = network
        self.process = process
        self.slot = slot
        self.limits = limits
        self.address = (process.name, len(network.planes) + 1)
        self.wirings: dict[int, SimWiring] = {}

    def begin(self, attempt: int, peers: Sequence[tuple[str, int]], lost: Lost, region: int = 0) -> SimWiring:
        before = self.wirings.get(region)
        if before is not None:
            if attempt <= before.attempt:
                raise FencedError("not a newer attempt", attempt=attempt, current=before.attempt)
            before.close()
        self.wirings[region] = wiring = SimWiring(self, attempt, peers, lost, region)
        return wiring

    def close(self) -> None:
        for wiring in self.wirings.values():
            wiring.close()


class SimWiring(Wiring):
    """The channels of one attempt, over simulated connections."""

    def __init__(
        self, plane: SimDataPlane, attempt: int, peers: Sequence[tuple[str, int]], lost: Lost, region: int
    ) -> None:
        super().__init__(plane, attempt, peers, lost, region)  # type: ignore[arg-type]
        self.plane = plane

    def connect(self, timeout_s: float) -> None:
        kernel = self.plane.network.kernel
        self._check_open()
        self._is_open = True
        deadline_ms = kernel.now_ms + round(timeout_s * 1000)
        for slot in sorted(self._inputs.keys() | self._outputs.keys()):
            while not self._is_connected_to(slot):
                self._check_not_closed()
                if kernel.now_ms > deadline_ms:
                    raise PeerError(f"slot {slot} did not connect in time")
                kernel.sleep(_POLL_MS)

    def _is_connected_to(self, slot: int) -> bool:
        if slot in self._connections:
            return True
        other = self.plane.network.planes[self._peers[slot][1]]
        wiring = other.wirings.get(self.region)
        if not other.process.alive:
            raise PeerError(f"slot {slot} cannot be reached")
        if wiring is None or wiring.attempt < self.attempt or (wiring.attempt == self.attempt and not wiring.is_open):
            return False
        if wiring.attempt > self.attempt or wiring._is_closed:
            raise PeerError(f"slot {slot} refused the connection: it runs another attempt")
        self.join_with(slot, wiring)
        wiring.join_with(self.plane.slot, self)
        return True

    def join_with(self, slot: int, other: SimWiring) -> None:
        """Use a connection to another slot, whose own end is `other`."""
        self._connections[slot] = SimDataConnection(self, slot, other)  # type: ignore[assignment]

    def outputs_to(self, slot: int) -> dict[ChannelKey, RemoteChannel]:
        return self._outputs.get(slot, {})

    def inputs_from(self, slot: int) -> dict[ChannelKey, RemoteInput]:
        return self._inputs.get(slot, {})

    def lost(self, slot: int, reason: str) -> None:
        self._connection_lost(slot, reason)


class SimDataConnection:
    """One end of a connection between two slots: moves items, returns credit, and ends with either process."""

    def __init__(self, wiring: SimWiring, peer: int, other: SimWiring) -> None:
        self._wiring = wiring
        self._peer = peer
        self._other = other
        self._kernel = wiring.plane.network.kernel
        self._targets = other.inputs_from(wiring.plane.slot)
        self._open = {*wiring.outputs_to(peer), *wiring.inputs_from(peer)}
        self._is_over = False
        for given in wiring.inputs_from(peer).values():
            given.link = self
        for channel in wiring.outputs_to(peer).values():
            self._kernel.after(0, wiring.plane.process, channel.attach, self)
        other.plane.process.on_death.append(self._peer_died)

    # For the channels.

    def schedule(self, channel: RemoteChannel) -> None:
        delay_ms = self._kernel.between(0, MAX_TRANSFER_MS)
        self._kernel.after(delay_ms, self._wiring.plane.process, self._transfer, channel)

    def give_credit(self, key: ChannelKey, size: int) -> None:
        channel = self._other.outputs_to(self._wiring.plane.slot).get(key)
        if channel is not None:
            delay_ms = self._kernel.between(0, MAX_TRANSFER_MS)
            self._kernel.after(delay_ms, self._other.plane.process, channel.add_credit, size)

    def tell_end_read(self, key: ChannelKey) -> None:
        channel = self._other.outputs_to(self._wiring.plane.slot).get(key)
        if channel is not None:
            self._kernel.after(
                self._kernel.between(0, MAX_TRANSFER_MS), self._other.plane.process, channel.end_was_read
            )

    def _transfer(self, channel: RemoteChannel) -> None:
        if self._is_over or not self._other.plane.process.alive:
            return
        for _ in range(ITEMS_PER_TRANSFER):
            item = channel.take()
            if item is None:
                return
            if item.kind is ItemKind.END_OF_PARTITION:
                self._open.discard(channel.key)
            target = self._targets[channel.key]
            self._kernel.after(0, self._other.plane.process, self._arrive, target, item)
        self.schedule(channel)

    def _arrive(self, target: RemoteInput, item: Any) -> None:
        if item.kind is ItemKind.END_OF_PARTITION:
            back = self._back()
            if back is not None:
                back._open.discard(target.key)
        target.receiver.arrive(target.channel_index, item)

    def _back(self) -> SimDataConnection | None:
        """The other end."""
        return cast("SimDataConnection | None", self._other._connections.get(self._wiring.plane.slot))

    # Ending.

    def _peer_died(self) -> None:
        if not self._is_over and self._open:
            process = self._wiring.plane.process
            self._kernel.after(self._kernel.between(0, 30), process, self._lost)

    def _lost(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._wiring.lost(self._peer, "the other end closed the connection")

    def stop(self) -> None:
        """End the attempt here; the other end notices if it still needs the connection."""
        if not self._is_over:
            self._is_over = True
            back = self._back()
            if back is not None and back._open:
                self._kernel.after(self._kernel.between(0, 30), self._other.plane.process, back._lost)

    def join(self) -> None:
        """Nothing to wait for."""

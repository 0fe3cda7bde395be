"""Messages between drivers and slots, which may be lost, late or doubled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.scenario import Fault


class Network:
    """Delivers in order between two processes, except for messages that a fault makes late.

    A process that is cut off hears nothing and is not heard until its link is back.
    """

    def __init__(self, kernel: Kernel, faults: frozenset[Fault]) -> None:
        self._kernel = kernel
        self._faults = faults
        self._last: dict[tuple[str, str], int] = {}
        self._cut_until: dict[str, int] = {}
        self.is_quiet = False

    def cut(self, process: Process, until_ms: int) -> None:
        self._cut_until[process.name] = until_ms

    def send(
        self,
        source: Process,
        target: Process,
        call: Callable[..., None],
        *args: Any,
        lost: Callable[..., None] | None = None,
    ) -> None:
        """Deliver a message. `lost` is told, later, if it was lost; without it nobody is."""
        kernel = self._kernel
        at_ms = kernel.now_ms + kernel.between(0, 2)
        reachable_ms = max(self._cut_until.get(source.name, 0), self._cut_until.get(target.name, 0))
        at_ms = max(at_ms, reachable_ms)
        if self._happens(Fault.MESSAGE_LOST, 0.04):
            if lost is not None:
                kernel.after(kernel.between(10, 30), source, lost)
            return
        if self._happens(Fault.MESSAGE_LATE, 0.06):
            kernel.after(at_ms - kernel.now_ms + kernel.between(5, 120), target, call, *args)
            return
        link = (source.name, target.name)
        at_ms = max(at_ms, self._last.get(link, 0))
        self._last[link] = at_ms
        kernel.after(at_ms - kernel.now_ms, target, call, *args)
        if self._happens(Fault.MESSAGE_DOUBLED, 0.2):
            kernel.after(at_ms - kernel.now_ms + kernel.between(0, 40), target, call, *args)

    def _happens(self, fault: Fault, probability: float) -> bool:
        if self.is_quiet or fault not in self._faults or not self._kernel.chance(probability):
            return False
        self._kernel.cover(f"fault: {fault.value}")
        return True

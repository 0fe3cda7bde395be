"""What surrounds the drivers of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.testing.sim.checkers import Checker
from snapline.testing.sim.kernel import Kernel
from snapline.testing.sim.network import Network
from snapline.testing.sim.outside import Outside
from snapline.testing.sim.scenario import Scenario
from snapline.testing.sim.storage import SimStorage


@dataclass(frozen=True, slots=True)
class World:
    """What all drivers share."""

    kernel: Kernel
    scenario: Scenario
    storage: SimStorage
    outside: Outside
    network: Network
    checker: Checker

"""What surrounds the drivers of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.devtools.simulator.checkers import Checker
from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.network import Network
from snapline.devtools.simulator.outside import Outside
from snapline.devtools.simulator.scenario import Scenario
from snapline.devtools.simulator.storage import SimStorage


@dataclass(frozen=True, slots=True)
class World:
    """What all drivers share."""

    kernel: Kernel
    scenario: Scenario
    storage: SimStorage
    outside: Outside
    network: Network
    checker: Checker

"""Everything around the drivers of a simulated run."""

from __future__ import annotations

from snapline.devtools.simulator.checkers import Checker
from snapline.devtools.simulator.control_network import Network
from snapline.devtools.simulator.data_network import DataNetwork
from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.outside import Outside
from snapline.devtools.simulator.scenario import Scenario
from snapline.devtools.simulator.sim_storage import SimObjects, SimStorage


class World:
    """What all drivers and slots share. Every batch fails in the operator that is `broken`, until it is mended."""

    def __init__(self, scenario: Scenario, *, story: bool = False) -> None:
        faults = scenario.faults
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed, story=story)
        self.storage = SimStorage(self.kernel, faults)
        self.objects = SimObjects(self.storage)
        self.outside = Outside(self.kernel, faults)
        self.network = Network(self.kernel, faults)
        self.data_network = DataNetwork(self.kernel)
        self.checker = Checker(self.kernel, scenario, self.storage, self.outside)
        self.broken: str | None = None

    def become_quiet(self) -> None:
        """Stop all faults."""
        self.storage.is_quiet = self.outside.is_quiet = self.network.is_quiet = True

"""Everything the driver knows about a job that is about to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from snapline.config import NO_MONITORING, Checkpoints, Execution, Monitoring, NoRestart, RestartStrategy
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.operator import Operator
from snapline.contracts.operator_coordinator import OperatorCoordinator
from snapline.contracts.sink import Sink
from snapline.contracts.source import Source, Watermarks
from snapline.errors import UserCodeError
from snapline.graph.execution_plan import ExecutionPlan
from snapline.operators.split_coordinator import SplitCoordinator
from snapline.protocol.job.regions import Regions


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job, checked and planned. `shipment` is sent to its processes: see `graph/shipment.py`.

    `coordinated` are the operators that have a coordinator of their own, `watermarks` those of sources.
    """

    job_id: str
    name: str
    plan: ExecutionPlan
    sources: Mapping[str, Source]
    hooks: Mapping[str, MasterHook]
    checkpoints: Checkpoints
    execution: Execution
    restart: RestartStrategy
    shipment: bytes
    coordinated: Mapping[str, Operator] = field(default_factory=dict)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    watermarks: Mapping[str, Watermarks] = field(default_factory=dict)
    monitoring: Monitoring = NO_MONITORING

    def make_coordinator(self, uid: str) -> OperatorCoordinator:
        """A new coordinator for a source, or for an operator that has its own."""
        if uid in self.sources:
            return SplitCoordinator(self.sources[uid], self.watermarks.get(uid))
        made = self.coordinated[uid].make_coordinator()
        if not isinstance(made, OperatorCoordinator):
            raise UserCodeError(f"make_coordinator() gave {made!r}; it must give an OperatorCoordinator")
        return made

    @property
    def regions(self) -> Regions:
        """What restarts by itself after a failure. Master hooks go back with all regions or with none."""
        return self.plan.regions_coupled_by("master hooks belong to the whole job" if self.hooks else "")

    def sources_of(self, regions: Collection[int]) -> list[str]:
        """The sources of these regions."""
        of = self.regions.of
        return [uid for uid in self.sources if of(uid) in regions]

    @property
    def takes_last_checkpoint(self) -> bool:
        return takes_last_checkpoint(self.checkpoints, self.restart)


def takes_last_checkpoint(checkpoints: Checkpoints, restart: RestartStrategy) -> bool:
    """Whether subtasks that have read everything wait for one more checkpoint, which makes their last output final.

    If not, each makes it final at its own end, which is correct only for a job that never starts again.
    """
    return may_go_back(checkpoints, restart) and checkpoints.after_tasks_finish


def may_go_back(checkpoints: Checkpoints, restart: RestartStrategy) -> bool:
    """Whether rows may be processed again: after a failure, or by a new driver that resumes the job."""
    return checkpoints.is_periodic or checkpoints.storage is not None or not isinstance(restart, NoRestart)

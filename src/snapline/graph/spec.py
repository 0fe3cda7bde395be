"""Everything the driver knows of a job that is about to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snapline.api.hook import MasterHook
from snapline.api.settings import Execution
from snapline.api.source import Source
from snapline.config import Checkpoints, RestartStrategy
from snapline.graph.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job, checked and planned. `shipment` is what its processes get: see `graph/shipping.py`."""

    job_id: str
    name: str
    plan: ExecutionPlan
    sources: Mapping[str, Source]
    hooks: Mapping[str, MasterHook]
    checkpoints: Checkpoints
    execution: Execution
    restart: RestartStrategy
    shipment: bytes

"""What the coordinator of one attempt leaves to the next."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.config import Checkpoints
from snapline.protocol.coordinator.failure_counter import FailureManager
from snapline.protocol.coordinator.schedule import PeriodicSchedule
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics


@dataclass(slots=True)
class CoordinatorMemory:
    """What outlives an attempt within one driver; a new driver starts with a fresh one."""

    statistics: CheckpointStatistics
    failures: FailureManager
    schedule: PeriodicSchedule
    last_completed_ms: int | None = None

    @classmethod
    def fresh(cls, config: Checkpoints) -> CoordinatorMemory:
        statistics = CheckpointStatistics(history=config.history)
        return cls(statistics, FailureManager(config.tolerable_failures), PeriodicSchedule(config))

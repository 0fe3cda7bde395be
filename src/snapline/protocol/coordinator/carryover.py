"""What the coordinator of one attempt hands to the next."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.config import Checkpoints
from snapline.protocol.coordinator.failure_counter import FailureCounter
from snapline.protocol.coordinator.schedule import PeriodicSchedule
from snapline.protocol.statistics.checkpoint_statistics import CheckpointStatistics


@dataclass(slots=True)
class Carryover:
    """Outlives an attempt within one driver. A new driver starts with a fresh one."""

    statistics: CheckpointStatistics
    failures: FailureCounter
    schedule: PeriodicSchedule
    last_completed_ms: int | None = None

    @classmethod
    def fresh(cls, config: Checkpoints, history: int = 0) -> Carryover:
        """With a history of at least this many checkpoints."""
        statistics = CheckpointStatistics(history=max(config.history, history))
        return cls(statistics, FailureCounter(config.tolerable_failures), PeriodicSchedule(config))

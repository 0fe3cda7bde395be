"""The thread pools of a job master."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Scheduler

STORAGE_THREADS = 4
COORDINATOR_THREADS = 4
BACKGROUND_THREADS = 4


@dataclass(frozen=True, slots=True)
class MasterCalls:
    """Pools for blocking calls. The journal's appends come one at a time. The last three are for user code: master
    hooks, one at a time; operator coordinators; and what those call in the background."""

    storage: BackgroundCalls
    journal: BackgroundCalls
    hooks: BackgroundCalls
    coordinators: BackgroundCalls
    background: BackgroundCalls

    @classmethod
    def of(cls, scheduler: Scheduler) -> MasterCalls:
        return cls(
            storage=BackgroundCalls(scheduler, STORAGE_THREADS, "snapline-storage"),
            journal=BackgroundCalls(scheduler, 1, "snapline-journal"),
            hooks=BackgroundCalls(scheduler, 1, "snapline-hooks"),
            coordinators=BackgroundCalls(scheduler, COORDINATOR_THREADS, "snapline-coordinators"),
            background=BackgroundCalls(scheduler, BACKGROUND_THREADS, "snapline-background"),
        )

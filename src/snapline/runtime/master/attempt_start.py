"""The start of an attempt: claims it in the journal, reads what it starts from, and starts what runs on the driver."""

from __future__ import annotations

from collections.abc import Callable

from snapline.graph.job_spec import JobSpec
from snapline.runtime.master import job_recovery as r
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.master_calls import MasterCalls
from snapline.runtime.master.operator_coordinators import OperatorCoordinators, prepare_coordinators
from snapline.runtime.scheduler.scheduler import Scheduler


class AttemptStart:
    """Works on threads. Outcomes and errors arrive on the loop."""

    def __init__(self, spec: JobSpec, storage: MasterStorage, scheduler: Scheduler, calls: MasterCalls) -> None:
        self._spec = spec
        self._storage = storage
        self._scheduler = scheduler
        self._calls = calls

    def claim(self, own: int, claimed: Callable[[r.Claim], None], failed: Callable[[Exception], None]) -> None:
        """Claim the next attempt; `own` is this driver's current one."""
        archive = self._storage.archive
        what = f"job {self._spec.name}: claiming it in {archive.directory}"
        self._calls.journal.run(lambda: r.claim(archive, own), claimed, failed, what)

    def prepare(
        self,
        attempt: int,
        regions: frozenset[int] | None,
        prepared: Callable[[r.Recovery, OperatorCoordinators], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Plan the restore of these regions, or of all, and start their coordinators."""
        spec, storage = self._spec, self._storage

        def recovered(recovery: r.Recovery) -> None:
            self._calls.hooks.run(
                lambda: prepare_coordinators(spec, recovery, storage.objects, self._scheduler, self._calls),
                lambda coordinators: prepared(recovery, coordinators),
                failed,
                f"job {spec.name}: starting its sources, coordinators and master hooks",
            )

        what = f"job {spec.name}: reading its checkpoints in {storage.archive.directory}"
        self._calls.storage.run(lambda: r.recover(spec, storage, attempt, regions), recovered, failed, what)

"""Records the end of a job before it is reported."""

from __future__ import annotations

from collections.abc import Callable

from snapline.errors import FencedError, StorageError, StorageLostError
from snapline.graph.job_spec import JobSpec
from snapline.protocol.job.first_failure import FirstFailure
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.runtime.job_logs import JobLogger
from snapline.runtime.master.job_storage import MasterStorage
from snapline.runtime.master.slot_generations import SlotGenerations
from snapline.runtime.scheduler.background_calls import BackgroundCalls
from snapline.runtime.scheduler.scheduler import Scheduler
from snapline.storage.cleaner import Cleaner
from snapline.types import ClaimMode, JobStatus

RECORD_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
"""Pauses between attempts to record the end, on top of the storage's own retries."""

RECORD_TIMEOUT_S = 60.0
"""How long recording the end may take altogether, also if storage never answers."""

_log = JobLogger(__name__)


class EndRecorder:
    """Records the end of a job, so that no driver runs it again, and cleans up its storage accordingly."""

    def __init__(
        self,
        spec: JobSpec,
        storage: MasterStorage,
        cleaner: Cleaner,
        scheduler: Scheduler,
        on_journal: BackgroundCalls,
        generations: SlotGenerations,
        failure: FirstFailure,
    ) -> None:
        self._spec = spec
        self._storage = storage
        self._cleaner = cleaner
        self._scheduler = scheduler
        self._on_journal = on_journal
        self._generations = generations
        self._failure = failure

    def record(
        self, attempt: int, status: JobStatus, retained: RetainedSnapshots | None, done: Callable[[JobStatus], None]
    ) -> None:
        """Record the end; `done` gets the status to report, `SUSPENDED` if recording failed or takes too long."""
        pauses_s = list(RECORD_PAUSES_S)
        has_ended = False

        def end(as_status: JobStatus) -> None:
            nonlocal has_ended
            if not has_ended:
                has_ended = True
                timer.cancel()
                done(as_status)

        def timed_out() -> None:
            self._report(
                f"the end of the job ({status.value}) could not be recorded within {RECORD_TIMEOUT_S:g} s: its storage "
                "does not answer; unless that call still succeeds, a driver that is started with this job continues it"
            )
            end(JobStatus.SUSPENDED)

        def attempt_record() -> None:
            if not has_ended:
                self._on_journal.run(
                    lambda: self._write(attempt, status, retained),
                    lambda _: end(status),
                    failed,
                    f"job {self._spec.name}: recording its end ({status.value}) in {self._storage.archive.directory}",
                )

        def failed(error: Exception) -> None:
            if has_ended:
                return
            if isinstance(error, FencedError):
                self._report(f"the job did not end as {status.value}: {error}")
                end(JobStatus.SUSPENDED)
                return
            if isinstance(error, StorageLostError):
                self._report(f"the end of the job ({status.value}) is not recorded: {error}")
                end(status)
                return
            if not isinstance(error, StorageError):
                raise error
            self._report(
                f"the end of the job ({status.value}) could not be recorded: {error}; a driver that is started with "
                "this job continues it"
            )
            if pauses_s:
                self._scheduler.call_later(pauses_s.pop(0), attempt_record)
            else:
                end(JobStatus.SUSPENDED)

        def asked(gone: str | None) -> None:
            if gone is None:
                attempt_record()
                return
            # Its slots went with the application, which no restart can fix: leave the job to another driver.
            self._failure.replaced(gone)
            end(status)

        timer = self._scheduler.call_later(RECORD_TIMEOUT_S, timed_out)
        if status is JobStatus.FAILED:
            self._generations.ask_why_gone(asked)
        else:
            attempt_record()

    def _write(self, attempt: int, status: JobStatus, retained: RetainedSnapshots | None) -> None:
        """Blocks."""
        self._cleaner.close()
        config = self._spec.checkpoints
        claimed = self._storage.given if config.claim_mode is ClaimMode.CLAIM else None
        archive = self._storage.archive
        archive.finish(attempt, status, config.externalized, retained, claimed, limit=config.retained)

    def _report(self, cause: str) -> None:
        self._failure.replaced(cause)
        _log.warning("job %s: %s", self._spec.name, cause)

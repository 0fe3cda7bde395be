"""A driver's client of the journal: take over, reserve ids, publish and close, unless fenced."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from snapline.errors import DamagedError, FencedError, ObjectNotFoundError, StorageError, StorageLostError
from snapline.protocol.journal import Journal, Publication, Record
from snapline.protocol.snapshot import Snapshot
from snapline.storage.journals.journal_store import JournalStore
from snapline.types import JobStatus

RETRIES = 3
"""Retries of idempotent operations, on top of those of the stores."""

RETRY_PAUSE_S = 0.1

MAX_APPENDS = 100
"""How many records in a row may lose to other drivers before an append fails."""

PRUNE_ABOVE = 8
"""Obsolete records a journal may hold before they are deleted without a checkpoint's deletion."""

LOST_ADVICE = (
    "The job has nothing left to recover from, so it was stopped. Bring the directory back and start it again: it "
    "continues from its last checkpoint. Or start it under another id, from a savepoint or from the beginning. Under "
    "the same id and without the directory it would begin anew and repeat its output"
)

_log = logging.getLogger(__name__)

T = TypeVar("T")


class PublicationFencedError(FencedError):
    """A snapshot could not be published: a newer attempt has taken over.

    If `possibly_inconsistent`, an append was sent: the snapshot may have been canonical and must be kept. `is_own`
    means that the newer attempt belongs to the same driver.
    """

    def __init__(self, message: str, *, attempt: int, current: int, possibly_inconsistent: bool, is_own: bool) -> None:
        super().__init__(message, attempt=attempt, current=current)
        self.possibly_inconsistent = possibly_inconsistent
        self.is_own = is_own


@dataclass(frozen=True, slots=True)
class _Appended:
    """The last appended record, or None if fenced; whether any create was sent."""

    record: Record | None
    journal: Journal
    was_sent: bool


class JournalClient:
    """The journal of one job, as one driver uses it; `token` is unique to that driver. Messages name the `place`.

    Thread-safe. Every method blocks, and raises `StorageError` if the store still fails after all retries.
    """

    def __init__(
        self,
        journal: JournalStore,
        token: str,
        *,
        retries: int = RETRIES,
        retry_pause_s: float = RETRY_PAUSE_S,
        sleep: Callable[[float], None] = time.sleep,
        place: str = "its store",
    ) -> None:
        self.token = token
        self._place = place
        self._journal = journal
        self._retries = retries
        self._retry_pause_s = retry_pause_s
        self._sleep = sleep
        self._appending = threading.Lock()

    def read_journal(self) -> Journal:
        return self._repeat(self._journal.read)

    def prepare_journal(self) -> None:
        """Raises `StorageError` if the journal could not be written."""
        self._repeat(self._journal.prepare)

    def disconnect(self) -> None:
        """Close the journal store, without changing it."""
        self._journal.close()

    def claim(self, own_attempt: int = 0) -> tuple[Journal, bool]:
        """Take over the job; `own_attempt` is the last attempt this driver ran, 0 if none.

        Returns the journal, and whether its newest attempt is a new one of this driver. It is not if the job is closed,
        or another driver has taken over from this one.
        """

        def is_ours(journal: Journal) -> bool:
            return journal.attempt > own_attempt and journal.owns(journal.attempt, self.token)

        def make(journal: Journal) -> Record | None:
            self._check_claim(own_attempt, journal)
            is_foreign = own_attempt > 0 and journal.attempt > own_attempt
            if journal.is_closed or is_ours(journal) or is_foreign:
                return None
            return journal.take_over(self.token)

        journal = self._append(make).journal
        self._prune(journal)
        return journal, is_ours(journal)

    def reserve_id(self, attempt: int, request: str, after: int = 0) -> int:
        """Reserve a checkpoint id above `after`, unique across all drivers.

        Repeating the last `request` of the same attempt returns the same id. Raises `StorageLostError` if the journal
        or the snapshot to recover from was deleted.
        """
        token = f"{self.token}:{request}"

        def make(journal: Journal) -> Record:
            self._check_claim(attempt, journal)
            return journal.reserve_id(attempt, token, after=after)

        appended = self._append(make)
        assert appended.record is not None
        assert appended.record.checkpoint_id is not None
        self._check_latest(appended.journal)
        self._prune(appended.journal)
        return appended.record.checkpoint_id

    def publish(self, snapshot: Snapshot) -> None:
        """Make a snapshot canonical. An unclear outcome of the append is resolved by reading the journal.

        Raises `PublicationFencedError` if a newer attempt has taken over. After a `possibly_inconsistent`
        `StorageError` the snapshot may be canonical: keep it.
        """

        def make(journal: Journal) -> Record:
            self._check_claim(snapshot.attempt, journal)
            return journal.publish(snapshot, self.token)

        appended = self._append(make)
        if appended.record is None:
            journal = appended.journal
            raise PublicationFencedError(
                f"snapshot {snapshot.id} of attempt {snapshot.attempt} was not published: the newest attempt is "
                f"{journal.attempt}, or the next is being claimed; this driver must stop",
                attempt=snapshot.attempt,
                current=journal.attempt,
                possibly_inconsistent=appended.was_sent,
                is_own=journal.owns(journal.attempt, self.token),
            )

    def close(self, attempt: int, status: JobStatus) -> Journal:
        """Record the end of the job. If it had already ended, the returned journal says how.

        Nothing of this attempt can be published after this, and no driver will run the job again unless it failed. A
        driver without an `attempt` (0) takes over first: another one may be running the job. Raises `FencedError` if
        another driver has taken over from this one.
        """

        def make(journal: Journal) -> Record | None:
            if journal.ended is not None:
                return None
            self._check_claim(attempt, journal)
            if journal.owns(journal.attempt, self.token):
                return journal.close(self.token, status)
            return journal.take_over(self.token) if attempt == 0 else None

        journal = self._append(make).journal
        if journal.ended is None:
            raise self._fenced(attempt, journal)
        return journal

    def _append(self, make: Callable[[Journal], Record | None]) -> _Appended:
        """Append what `make` derives from the journal, until it returns None or its record is in the journal.

        Only the journal itself shows whether an append succeeded, never the answer to it.
        """
        wanted: Record | None = None
        failure: StorageError | None = None
        failures = 0
        with self._appending:
            for _ in range(MAX_APPENDS):
                try:
                    journal = self.read_journal()
                except StorageError as error:
                    error.possibly_inconsistent = error.possibly_inconsistent or wanted is not None
                    raise
                record = make(journal)
                standing = None if record is None else journal.publication(record)
                if record is None or standing is Publication.APPENDED:
                    return _Appended(record or wanted, journal, wanted is not None)
                if standing is Publication.FENCED:
                    return _Appended(None, journal, wanted is not None)
                if failures > self._retries:
                    raise StorageError(
                        f"could not write the journal: {failure}", possibly_inconsistent=True
                    ) from failure
                wanted = record
                try:
                    self._journal.create(record)
                except StorageError as error:
                    failure, failures = error, failures + 1
                    self._sleep(self._retry_pause_s)
        raise StorageError(
            f"{MAX_APPENDS} records in a row came too late for the journal; several drivers compete for the job: "
            "stop all but one",
            possibly_inconsistent=True,
        )

    def _check_claim(self, attempt: int, journal: Journal) -> None:
        """Raise `StorageLostError` if this driver's claim on `attempt` (0 if it has none) is gone without a newer one.

        Nobody deletes the newest claim: whoever did has deleted or replaced the whole journal.
        """
        if attempt == 0 or journal.attempt > attempt or journal.owns(attempt, self.token):
            return
        found = f"attempt {journal.attempt} of another driver" if journal.attempt else "nothing"
        raise StorageLostError(
            f"the job's journal in {self._place} was deleted while it ran: it has {found} where attempt {attempt} had "
            f"claimed the job. {LOST_ADVICE}"
        )

    def _check_latest(self, journal: Journal) -> None:
        """Raise `StorageLostError` if the snapshot that a recovery would start from is gone."""
        latest = journal.latest
        if latest is None or self._has_snapshot(latest):
            return
        # It may have been deleted because a newer one was published meanwhile.
        if self.read_journal().latest == latest:
            raise StorageLostError(
                f"the job's last checkpoint was deleted while it ran: {latest.location} is gone. {LOST_ADVICE}"
            )

    def _has_snapshot(self, _record: Record) -> bool:
        """Whether the metadata of a snapshot is still there; a journal alone does not know."""
        return True

    def _prune(self, journal: Journal) -> None:
        """Keep the journal short even while no checkpoint completes or is deleted."""
        obsolete = journal.obsolete(record.checkpoint_id or 0 for record in journal.canonical)
        if len(obsolete) > PRUNE_ABOVE:
            try:
                self._journal.delete(obsolete)
            except StorageError as error:
                _log.warning("could not delete %d obsolete records of the journal yet: %s", len(obsolete), error)

    def _fenced(self, attempt: int, journal: Journal) -> FencedError:
        return FencedError(
            f"attempt {journal.attempt} has taken over the job from attempt {attempt}; this driver must stop",
            attempt=attempt,
            current=journal.attempt,
        )

    def _repeat(self, operation: Callable[[], T]) -> T:
        """Run an idempotent operation with bounded retries. Damaged and missing objects are not retried."""
        for _ in range(self._retries):
            try:
                return operation()
            except (DamagedError, ObjectNotFoundError):
                raise
            except StorageError:
                self._sleep(self._retry_pause_s)
        return operation()

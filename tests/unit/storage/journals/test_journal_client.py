"""A driver's journal on a store that fails; `tests/contract/test_journals.py` covers every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from snapline.errors import FencedError, StorageError
from snapline.protocol.journal import Journal, Record, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.storage.journals.journal_client import PRUNE_ABOVE, JournalClient, PublicationFencedError
from snapline.storage.journals.journal_store import MemoryJournal
from snapline.types import JobStatus, SnapshotKind

PAUSE_S = 0.01


def driver(journal: FailingJournal | MemoryJournal, name: str) -> JournalClient:
    return JournalClient(journal, name, retry_pause_s=PAUSE_S)


def snapshot(checkpoint_id: int, attempt: int) -> Snapshot:
    return Snapshot(checkpoint_id, SnapshotKind.CHECKPOINT, attempt, 0, f"/job/chk-{checkpoint_id}", {})


class FailingJournal:
    """A journal in memory that calls `before` and `after` around each creation of a record."""

    outlives_driver = False

    def __init__(self) -> None:
        self.inner = MemoryJournal()
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def read(self) -> Journal:
        return self.inner.read()

    def create(self, record: Record) -> bool:
        before, self.before = self.before, lambda: None
        before()
        created = self.inner.create(record)
        self.after()
        return created

    def delete(self, records: Iterable[Record]) -> None:
        self.inner.delete(records)

    def prepare(self) -> None:
        self.inner.prepare()

    def sweep(self) -> None:
        self.inner.sweep()

    def close(self) -> None:
        pass


def lost() -> None:
    raise StorageError("the answer was lost", possibly_inconsistent=True)


def test_a_driver_that_is_fenced_while_it_appends_must_keep_the_snapshot() -> None:
    journal = FailingJournal()
    old, new = driver(journal, "old"), driver(journal.inner, "new")
    old.claim()
    journal.before = lambda: assert_claimed(new)
    with pytest.raises(PublicationFencedError) as caught:
        old.publish(snapshot(1, attempt=1))
    assert caught.value.possibly_inconsistent
    assert journal.read().canonical == ()


def assert_claimed(client: JournalClient) -> None:
    assert client.claim()[1]


def test_lost_answers_do_not_make_a_driver_append_twice() -> None:
    journal = FailingJournal()
    client = driver(journal, "driver")
    journal.after = lost
    assert client.claim()[0].attempt == 1
    assert client.reserve_id(1, "request", after=0) == 1
    client.publish(snapshot(1, attempt=1))
    assert client.close(1, JobStatus.FINISHED).ended is JobStatus.FINISHED
    kinds = [record.kind for record in journal.read().records]
    assert kinds == [RecordKind.CLAIM, RecordKind.END, RecordKind.ID, RecordKind.CHECKPOINT, RecordKind.SEAL]


def test_a_job_that_failed_can_be_taken_over_by_another_driver_but_not_by_one_that_is_behind() -> None:
    journal = MemoryJournal()
    behind, first, second = driver(journal, "behind"), driver(journal, "first"), driver(journal, "second")
    behind.claim()
    first.claim()
    first.publish(snapshot(1, attempt=2))
    assert first.close(2, JobStatus.FAILED).ended is JobStatus.FAILED
    assert first.close(2, JobStatus.FAILED).ended is JobStatus.FAILED, "once more does no harm"
    assert behind.claim(1)[1] is False, "it ran an attempt of its own before"
    read, is_ours = second.claim()
    assert is_ours
    assert (read.attempt, read.failed_before) == (4, 2)
    assert [record.checkpoint_id for record in read.recovery_points] == [1]
    with pytest.raises(FencedError, match="attempt 4 has taken over"):
        first.close(2, JobStatus.FAILED)


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED])
def test_a_job_that_finished_or_was_cancelled_can_not(status: JobStatus) -> None:
    journal = MemoryJournal()
    first, second = driver(journal, "first"), driver(journal, "second")
    first.claim()
    first.close(1, status)
    read, is_ours = second.claim()
    assert (read.ended, is_ours) == (status, False)


def test_a_store_that_never_takes_a_record_is_an_error_after_bounded_retries() -> None:
    journal, tries = FailingJournal(), 0

    def refuse() -> None:
        nonlocal tries
        tries += 1
        journal.before = refuse
        raise StorageError("no space left")

    journal.before = refuse
    client = JournalClient(journal, "driver", retries=2, retry_pause_s=PAUSE_S)
    with pytest.raises(StorageError, match="could not write the journal: no space left"):
        client.claim()
    assert tries == 3


def test_ids_that_are_reserved_in_vain_do_not_pile_up() -> None:
    journal = MemoryJournal()
    client = driver(journal, "driver")
    client.claim()
    ids = [client.reserve_id(1, f"request-{number}") for number in range(5 * PRUNE_ABOVE)]
    assert ids == list(range(1, 5 * PRUNE_ABOVE + 1))
    assert len(journal.read().records) <= PRUNE_ABOVE + 2

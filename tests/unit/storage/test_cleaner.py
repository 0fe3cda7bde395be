"""The cleaner: deletions in the background, repeated, counted and limited."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from snapline.errors import StorageError
from snapline.storage.archive import Archive
from snapline.storage.cleaner import Cleaner
from snapline.storage.journals.journal_store import MemoryJournal
from snapline.storage.objects.memory_objects import MemoryObjects

WAIT_S = 30.0
PAUSE_S = 0.01


@pytest.fixture
def archive() -> Archive:
    return Archive(MemoryObjects(), MemoryJournal(), "memory://store/job", "driver")


def threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "snapline-cleaner")


class Results:
    """Collects the results a cleaner reports."""

    def __init__(self) -> None:
        self.errors: list[Exception | None] = []
        self._changed = threading.Condition()

    def __call__(self, error: Exception | None) -> None:
        with self._changed:
            self.errors.append(error)
            self._changed.notify_all()

    def await_count(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.errors) >= count, WAIT_S)


def test_a_cleaner_deletes_several_things_at_once(archive: Archive) -> None:
    results, cleaner = Results(), Cleaner(archive, threads(3))
    together = threading.Barrier(3)

    def meet() -> None:
        together.wait(WAIT_S)

    for index in range(3):
        cleaner.submit(f"thing {index}", meet, results)
    cleaner.close()
    assert results.errors == [None] * 3


def test_a_cleaner_repeats_what_fails_and_reports_what_fails_for_good(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    results, cleaner = Results(), Cleaner(archive, threads(1), retries=2, retry_pause_s=PAUSE_S)
    tries: list[str] = []

    def fail(name: str, times: int) -> None:
        tries.append(name)
        if tries.count(name) <= times:
            raise StorageError(f"{name} failed")

    def defect() -> None:
        raise ZeroDivisionError("a defect")

    cleaner.submit("transient", lambda: fail("transient", 2), results)
    cleaner.submit("permanent", lambda: fail("permanent", 9), results)
    cleaner.submit("defective", defect, results)
    cleaner.submit("badly told", lambda: None, lambda error: defect())
    cleaner.close()
    assert tries == ["transient"] * 3 + ["permanent"] * 3
    assert [type(error) for error in results.errors] == [type(None), StorageError, ZeroDivisionError]
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [text.split(" is left")[0] for text in warnings[:2]] == ["permanent", "defective"]
    assert "badly told" in warnings[2]
    assert len(warnings) == 3


def test_a_cleaner_counts_what_waits_and_takes_no_more_than_its_limit(archive: Archive) -> None:
    results, cleaner = Results(), Cleaner(archive, threads(1), queue_limit=2)
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(WAIT_S)

    cleaner.submit("running", wait, results)
    cleaner.submit("waiting", lambda: None, results)
    assert begun.wait(WAIT_S)
    cleaner.submit("too much", lambda: None, results)
    (error,) = results.errors
    assert "2 deletions are waiting" in str(error)
    assert not cleaner.abandon(0.01), "one does not return"
    results.await_count(2)
    go_on.set()
    assert cleaner.abandon(WAIT_S)
    results.await_count(3)
    assert "closed before it began" in str(results.errors[1])
    assert results.errors[2] is None
    cleaner.submit("late", lambda: None, results)
    assert "is closed" in str(results.errors[3])
    cleaner.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("snapline-cleaner")]

"""Deletes in the background what nobody needs any more, several things at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from snapline.errors import SnaplineError, StorageError
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot
from snapline.storage.archive import Archive

PARALLELISM = 4
QUEUE_LIMIT = 1_000
"""How many deletions may wait. Beyond that they are given up: what they leave, the next recovery sweeps."""

RETRIES = 3
RETRY_PAUSE_S = 0.5

_log = logging.getLogger(__name__)

Done = Callable[[Exception | None], None]
"""Told once for each deletion, in a thread of the cleaner or in that of the caller: the error it ended with, if any."""


class Cleaner:
    """Carries out deletions on a pool of threads of its own. Every method may be called from any thread.

    Deletions must be safe to repeat; one that fails is, a bounded number of times. What fails for good is logged, told
    to whoever asked, and left to the next recovery. `parallelism` 1 deletes one thing after the other.
    """

    def __init__(
        self,
        archive: Archive,
        parallelism: int = PARALLELISM,
        *,
        queue_limit: int = QUEUE_LIMIT,
        retries: int = RETRIES,
        retry_pause_s: float = RETRY_PAUSE_S,
    ) -> None:
        self._archive = archive
        self._queue_limit = queue_limit
        self._retries = retries
        self._retry_pause_s = retry_pause_s
        self._pool = ThreadPoolExecutor(parallelism, "snapline-cleaner")
        self._lock = threading.Lock()
        self._count = 0
        self._closed = threading.Event()

    @property
    def being_cleaned(self) -> int:
        """How many deletions have been asked for and are not over yet; no new checkpoint begins while it is high."""
        with self._lock:
            return self._count

    def delete_snapshot(self, snapshot: Snapshot, retained: RetainedSnapshots, done: Done) -> None:
        """Delete a snapshot that was subsumed."""
        self.submit(f"snapshot {snapshot.id}", lambda: self._archive.delete_snapshot(snapshot, retained), done)

    def submit(self, name: str, operation: Callable[[], None], done: Done) -> None:
        """Carry out a deletion later; `name` says what is deleted. Never blocks."""
        with self._lock:
            refusal = self._refusal()
            if refusal is None:
                self._count += 1
                future = self._pool.submit(self._clean, name, operation)
        if refusal is not None:
            self._tell(name, StorageError(f"{name} was not deleted: {refusal}"), done)
            return
        future.add_done_callback(lambda over: self._over(name, over, done))

    def close(self, *, wait: bool) -> None:
        """End all threads. With `wait`, carry out first what was asked for; else only what has begun.

        May be called more than once; whatever is submitted afterwards is refused.
        """
        with self._lock:
            self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=not wait)

    def _refusal(self) -> str | None:
        if self._closed.is_set():
            return "the cleaner is closed"
        if self._count >= self._queue_limit:
            return f"{self._count} deletions are waiting; storage is too slow for the number of checkpoints"
        return None

    def _clean(self, name: str, operation: Callable[[], None]) -> None:
        for remaining in reversed(range(self._retries)):
            try:
                operation()
                return
            except StorageError as error:
                _log.debug("%s was not deleted, %d more tries: %s", name, remaining + 1, error)
                self._closed.wait(self._retry_pause_s)
        operation()

    def _over(self, name: str, future: Future[None], done: Done) -> None:
        error: Exception | None
        if future.cancelled():
            error = StorageError(f"{name} was not deleted: the cleaner was closed before it began")
        else:
            raised = future.exception()
            error = raised if raised is None or isinstance(raised, Exception) else StorageError(f"{name}: {raised!r}")
        with self._lock:
            self._count -= 1
        self._tell(name, error, done)

    def _tell(self, name: str, error: Exception | None, done: Done) -> None:
        if error is not None:
            # A defect needs its traceback, a store that does not answer does not.
            trace = None if isinstance(error, SnaplineError) else error
            _log.warning("%s is left for the next recovery to sweep: %s", name, error, exc_info=trace)
        try:
            done(error)
        except Exception:
            _log.exception("whoever asked for %s to be deleted failed when told that it is over", name)

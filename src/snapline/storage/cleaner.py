"""Deletes obsolete snapshots and objects in the background, several at a time."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future

from snapline.errors import SnaplineError, StorageError
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.snapshot import Snapshot
from snapline.storage.archive import Archive

PARALLELISM = 4
QUEUE_LIMIT = 1_000
"""How many deletions may wait. Further ones are refused, and the next recovery sweeps what they leave."""

RETRIES = 3
RETRY_PAUSE_S = 0.5

_log = logging.getLogger(__name__)

Done = Callable[[Exception | None], None]
"""Called once per deletion with its error or None, on a thread of the cleaner or of the caller."""


class Cleaner:
    """Runs deletions on a pool of threads, which it owns from now on. Thread-safe.

    Deletions must be idempotent: one that fails is retried a bounded number of times, then logged, reported to its
    caller, and left to the next recovery. A pool of one thread deletes one thing after the other.
    """

    def __init__(
        self,
        archive: Archive,
        pool: Executor,
        *,
        queue_limit: int = QUEUE_LIMIT,
        retries: int = RETRIES,
        retry_pause_s: float = RETRY_PAUSE_S,
    ) -> None:
        self._archive = archive
        self._queue_limit = queue_limit
        self._retries = retries
        self._retry_pause_s = retry_pause_s
        self._pool = pool
        self._lock = threading.Lock()
        self._futures: set[Future[None]] = set()
        self._closed = threading.Event()

    def delete_snapshot(self, snapshot: Snapshot, retained: RetainedSnapshots, done: Done) -> None:
        self.submit(f"snapshot {snapshot.id}", lambda: self._archive.delete_snapshot(snapshot, retained), done)

    def submit(self, name: str, operation: Callable[[], None], done: Done) -> None:
        """Run a deletion later; `name` says what is deleted. Never blocks."""
        with self._lock:
            refusal = None
            if self._closed.is_set():
                refusal = "the cleaner is closed"
            elif len(self._futures) >= self._queue_limit:
                refusal = f"{len(self._futures)} deletions are waiting; storage is too slow for so frequent checkpoints"
            else:
                future = self._pool.submit(self._clean, name, operation)
                self._futures.add(future)
        if refusal is not None:
            self._report(name, StorageError(f"{name} was not deleted: {refusal}"), done)
            return
        future.add_done_callback(lambda over: self._over(name, over, done))

    def close(self) -> None:
        """Finish all submitted deletions, then end all threads. Idempotent; later submissions are refused."""
        with self._lock:
            self._closed.set()
        self._pool.shutdown(wait=True)

    def abandon(self, timeout_s: float) -> bool:
        """Drop deletions that have not begun and end all threads. Returns False if one does not return in time."""
        with self._lock:
            self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            begun = {future for future in self._futures if not future.cancelled()}
        return not concurrent.futures.wait(begun, timeout_s).not_done

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
            self._futures.discard(future)
        self._report(name, error, done)

    def _report(self, name: str, error: Exception | None, done: Done) -> None:
        if error is not None:
            # A bug needs its traceback, a failing store does not.
            trace = None if isinstance(error, SnaplineError) else error
            _log.warning("%s is left for the next recovery to sweep: %s", name, error, exc_info=trace)
        try:
            done(error)
        except Exception:
            _log.exception("the callback of the deletion of %s failed", name)

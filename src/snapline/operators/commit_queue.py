"""The commits of one subtask: in order, one at a time, retried with pauses, and kept in state until they are done."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

import msgspec

from snapline.contracts.operator import OperatorContext
from snapline.contracts.plain_data import plain_data
from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith
from snapline.errors import SnaplineError, TransientError, UserCodeError
from snapline.protocol.commit import AbortNewer, Commit, CommitEffect, Committer, FailCommit
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.text import error_text, shortened

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 1000

_MOST_WAITING = 2
"""Completed checkpoints whose output may wait for its commit before no more rows are taken."""

MOST_WAITING_BYTES = 256 << 20
"""While something waits for its commit, no more rows are taken if what is kept for commits is larger than this."""

_MAX_DONE = 1000
"""Commits that are remembered between two readings of the figures."""

Answer: TypeAlias = Callable[[Future[Any]], None]
Start: TypeAlias = Callable[[Committable, Permit, Answer], None]
"""Commits something elsewhere, then calls the answer with its future on the task's thread."""


class CommitQueue:
    """What a subtask has prepared and does not know to be committed. Used by the task's thread.

    It is part of the state `committables`, so that whoever restores it commits it.
    """

    def __init__(self, context: OperatorContext, start: Start, abort_newer: Callable[[int], None]) -> None:
        self.last_id = max(context.restored_id, context.prepared_until, 0)
        """The newest checkpoint that something may have been prepared for."""
        self._context = context
        self._commit = start
        self._abort_newer = abort_newer
        self._completed_ms: dict[int, int] = {}
        self._done: deque[tuple[int, int]] = deque(maxlen=_MAX_DONE)
        self._retries = 0
        self._last_problem = ""
        self._dropped = 0
        self._told_id = context.restored_id
        self._orders: deque[Commit] = deque()
        self._is_committing = False
        self._committer = Committer(context.attempt, max_retries=context.committer_retries)
        self._kept = context.states.operator.list_state("committables", bytes)
        self._encoded: dict[str, tuple[Committable, bytes]] = {}
        self._in_flight: set[int] = set()
        """Checkpoints with something prepared that are neither complete nor aborted."""

    def restore(self) -> None:
        """Abort what is newer than the restored checkpoint, and commit what it holds."""
        context = self._context
        restored = []
        for data in self._kept:
            entry = Committable(*msgspec.msgpack.decode(data))
            self._encoded[entry.name] = entry, data
            restored.append(entry)
        now_ms = context.clock()
        self._completed_ms = {entry.checkpoint_id: now_ms for entry in restored}
        self._carry_out(self._committer.restored(context.restored_id, restored, prepared_until=context.prepared_until))

    def prepared(self, checkpoint_id: int, payloads: Sequence[Any]) -> None:
        """Take what was prepared for a checkpoint, one payload per commit."""
        self.last_id = max(self.last_id, checkpoint_id)
        context = self._context
        prefix = f"{context.lineage}/{context.uid}/{context.subtask}/{context.attempt}/{checkpoint_id}"
        committables = [
            Committable(f"{prefix}/{number}", checkpoint_id, payload) for number, payload in enumerate(payloads)
        ]
        self._committer.prepared(checkpoint_id, committables, len(committables))
        if committables:
            self._in_flight.add(checkpoint_id)

    def sent(self, checkpoint_id: int) -> None:
        """What was prepared for a checkpoint is with a global committer, and nothing of it is kept here."""
        self.last_id = max(self.last_id, checkpoint_id)
        self._in_flight.add(checkpoint_id)

    def snapshot(self, checkpoint_id: int) -> None:
        """Let the state hold what is not committed. What it held before stays the same object, so that a large one is
        not written again.
        """
        known, self._encoded = self._encoded, {}
        for entry in self._committer.snapshot(checkpoint_id):
            before, data = known.get(entry.name, (None, b""))
            if before is None or before.payload is not entry.payload:
                data = msgspec.msgpack.encode([entry.name, entry.checkpoint_id, entry.payload])
            self._encoded[entry.name] = entry, data
        self._kept.set(data for _, data in self._encoded.values())

    def aborted(self, checkpoint_id: int) -> None:
        """The next checkpoint settles what was prepared for this one."""
        self._in_flight.discard(checkpoint_id)

    def completed(self, checkpoint_id: int) -> None:
        self._in_flight = {other for other in self._in_flight if other > checkpoint_id}
        now_ms = self._context.clock()
        for entry in self._committer.pending:
            if entry.checkpoint_id <= checkpoint_id:
                self._completed_ms.setdefault(entry.checkpoint_id, now_ms)
        self._carry_out(self._committer.completed(checkpoint_id))
        self._told_id = max(self._told_id, checkpoint_id)

    def ended(self) -> None:
        """Without checkpoints, the end of the input makes everything final."""
        self._carry_out(self._committer.ended())

    def figures(self) -> CommitFigures:
        """How the commits get on; `done` are those since the last call. Any thread."""
        done, told_id = [], self._told_id  # read before what waits because of it
        while self._done:
            done.append(self._done.popleft())
        waiting = list(self._completed_ms.values())
        waiting_ms = max(self._context.clock() - min(waiting), 0) if waiting else 0
        return CommitFigures(
            tuple(done), len(waiting), waiting_ms, self._retries, self._last_problem, self._dropped, told_id
        )

    @property
    def is_restoring(self) -> bool:
        """Whether something of the restored checkpoint is not committed yet."""
        return any(entry.checkpoint_id <= self._context.restored_id for entry in self._committer.pending)

    @property
    def is_behind(self) -> bool:
        """Whether commits cannot keep up: what waits for them is kept in state, which must not grow without limit."""
        return len(self._completed_ms) > _MOST_WAITING or (
            bool(self._completed_ms) and self._kept_bytes > MOST_WAITING_BYTES
        )

    @property
    def will_progress(self) -> bool:
        """Whether something is sure to happen to what was prepared, even if no more input is taken."""
        return bool(self._in_flight or self._completed_ms)

    @property
    def is_empty(self) -> bool:
        """Whether everything that was prepared is committed."""
        return not self._committer.pending

    @property
    def _kept_bytes(self) -> int:
        return sum(len(data) for _, data in self._encoded.values())

    def _carry_out(self, effects: Sequence[CommitEffect], *, is_retry: bool = False) -> None:
        for effect in effects:
            match effect:
                case AbortNewer(checkpoint_id):
                    self._abort_newer(checkpoint_id)
                case Commit() if is_retry:
                    self._orders.appendleft(effect)
                case Commit():
                    self._orders.append(effect)
                case FailCommit(_, error):
                    raise TransientError(
                        f"sink {self._context.uid!r}: {error}. What was prepared is kept in the checkpoint, and the "
                        "commit is tried again after a restart: look at what is outside"
                    )
        self._commit_next()

    def _commit_next(self) -> None:
        if self._is_committing or not self._orders:
            return
        order = self._orders.popleft()
        self._is_committing = True
        retries = order.committable.retries
        if retries:
            pause_ms = min(_FIRST_PAUSE_MS * 2 ** (retries - 1), _LONGEST_PAUSE_MS)
            self._context.call_later(pause_ms, lambda: self._start(order))
        else:
            self._start(order)

    def _start(self, order: Commit) -> None:
        committable = order.committable
        self._commit(committable, order.permit, lambda answer: self._answered(committable, answer))

    def _answered(self, committable: Committable, answer: Future[Any]) -> None:
        self._is_committing = False
        uid = self._context.uid
        try:
            result = answer.result()
        except SnaplineError:
            raise
        except Exception as error:
            raise UserCodeError(f"sink {uid!r} could not commit {committable.name}: {error_text(error)}") from error
        if isinstance(result, RetryWith):
            what = f"sink {uid!r} replaced {committable.name} with something that"
            result = RetryWith(plain_data([result.payload], what)[0])
        elif not isinstance(result, CommitResult):
            raise UserCodeError(
                f"sink {uid!r}: the commit of {committable.name} gave {shortened(result)}; it must give a "
                "CommitResult, or RetryWith(payload)"
            )
        if result is CommitResult.FAILED_KNOWN:
            self._dropped += 1
            _log.warning(
                "sink %s: the commit of %s has failed for good, and what it holds is dropped", uid, committable.name
            )
        is_retry = result is CommitResult.RETRY_LATER or isinstance(result, RetryWith)
        if is_retry or result is CommitResult.FAILED_KNOWN:
            what = "was asked to be tried again later" if is_retry else "has failed for good and was dropped"
            self._last_problem = f"the commit of {committable.name} {what}"
        self._retries = committable.retries + 1 if is_retry else 0
        if not is_retry:
            self._encoded.pop(committable.name, None)
        effects = self._committer.answered(committable.name, result)
        self._note_done(committable.checkpoint_id)
        self._carry_out(effects, is_retry=is_retry)

    def _note_done(self, checkpoint_id: int) -> None:
        if any(entry.checkpoint_id == checkpoint_id for entry in self._committer.pending):
            return
        completed_ms = self._completed_ms.pop(checkpoint_id, None)
        if completed_ms is not None:
            self._done.append((checkpoint_id, max(self._context.clock() - completed_ms, 0)))

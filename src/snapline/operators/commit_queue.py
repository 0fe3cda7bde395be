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
from snapline.text import error_text, shortened

_log = logging.getLogger(__name__)

_FIRST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 1000

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
        self._orders: deque[Commit] = deque()
        self._is_committing = False
        self._committer = Committer(context.attempt, max_retries=context.committer_retries)
        self._kept = context.states.operator.list_state("committables", bytes)

    def restore(self) -> None:
        """Abort what is newer than the restored checkpoint, and commit what it holds."""
        context = self._context
        restored = [Committable(*msgspec.msgpack.decode(entry)) for entry in self._kept]
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

    def snapshot(self, checkpoint_id: int) -> None:
        self._kept.set(
            msgspec.msgpack.encode([entry.name, entry.checkpoint_id, entry.payload])
            for entry in self._committer.snapshot(checkpoint_id)
        )

    def completed(self, checkpoint_id: int) -> None:
        self._carry_out(self._committer.completed(checkpoint_id))

    def ended(self) -> None:
        """Without checkpoints, the end of the input makes everything final."""
        self._carry_out(self._committer.ended())

    @property
    def is_empty(self) -> bool:
        """Whether everything that was prepared is committed."""
        return not self._committer.pending

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
            _log.warning(
                "sink %s: the commit of %s has failed for good, and what it holds is dropped", uid, committable.name
            )
        effects = self._committer.answered(committable.name, result)
        self._carry_out(effects, is_retry=result is CommitResult.RETRY_LATER or isinstance(result, RetryWith))

"""Two-phase commit: what a sink has prepared, when it may commit, and how it treats the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from snapline.errors import EngineError
from snapline.protocol.machine import TransitionTable
from snapline.types import NO_CHECKPOINT


@dataclass(frozen=True, slots=True)
class Committable:
    """Something prepared in an external system that one commit makes visible. `name` is unique in the job for ever."""

    name: str
    checkpoint_id: int
    payload: Any = None
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right of `attempt` to commit everything up to `checkpoint_id`, which is durable.

    The external system gets the permit with each commit, so that it can refuse an older attempt.
    """

    attempt: int
    checkpoint_id: int


class CommitResult(Enum):
    """The answer to one commit."""

    COMMITTED = "COMMITTED"
    ALREADY_COMMITTED = "ALREADY_COMMITTED"
    RETRY_LATER = "RETRY_LATER"
    FAILED_KNOWN = "FAILED_KNOWN"
    FAILED_UNKNOWN = "FAILED_UNKNOWN"


@dataclass(frozen=True, slots=True)
class RetryWith:
    """The answer to a commit that has to be tried again later with another payload, which replaces the one so far.

    The next checkpoint holds the new payload. A restore from an older one brings the old payload back, so that must
    remain something that can be committed.
    """

    payload: Any


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit this now; the answer comes back through `answered`."""

    committable: Committable
    permit: Permit


@dataclass(frozen=True, slots=True)
class AbortNewer:
    """Abort what older attempts of this sink have prepared for checkpoints after this one."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class FailCommit:
    """Fail the job over: this could not be committed."""

    committable: Committable
    error: str


CommitEffect: TypeAlias = Commit | AbortNewer | FailCommit


class CommitPhase(Enum):
    """The state of one committable."""

    PREPARED = "PREPARED"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"
    DROPPED = "DROPPED"
    FAILED = "FAILED"


_C = CommitPhase
COMMIT = TransitionTable(
    "One committable",
    "Prepared before the barrier, committed only with a permit that covers its checkpoint.",
    _C.PREPARED,
    [
        (_C.PREPARED, "permit", _C.COMMITTING),
        (_C.COMMITTING, "committed", _C.COMMITTED),
        (_C.COMMITTING, "already committed", _C.COMMITTED),
        (_C.COMMITTING, "retry", _C.COMMITTING),
        (_C.COMMITTING, "retry with another payload", _C.COMMITTING),
        (_C.COMMITTING, "known failure", _C.DROPPED),
        (_C.COMMITTING, "unknown failure", _C.FAILED),
        (_C.COMMITTING, "out of retries", _C.FAILED),
    ],
)
_CAUSES = {
    CommitResult.COMMITTED: "committed",
    CommitResult.ALREADY_COMMITTED: "already committed",
    CommitResult.FAILED_KNOWN: "known failure",
    CommitResult.FAILED_UNKNOWN: "unknown failure",
}


class Committer:
    """The committer of one sink subtask in one attempt.

    A permit is the only way to a commit. Committables of one checkpoint are committed before any of the next.
    """

    def __init__(self, attempt: int, *, max_retries: int = 10) -> None:
        self._attempt = attempt
        self._max_retries = max_retries
        self._permit: Permit | None = None
        self._open: dict[str, tuple[Committable, CommitPhase]] = {}
        self.dropped = 0

    @property
    def permitted_id(self) -> int:
        return NO_CHECKPOINT if self._permit is None else self._permit.checkpoint_id

    @property
    def pending(self) -> tuple[Committable, ...]:
        """Everything not known to be committed, oldest checkpoint first."""
        return tuple(sorted((entry for entry, _ in self._open.values()), key=lambda entry: entry.checkpoint_id))

    def prepared(self, checkpoint_id: int, committables: Iterable[Committable], expected: int) -> None:
        """Takes what writers prepared for a checkpoint; `expected` is the number that their summary announced."""
        received = list(committables)
        if len(received) != expected:
            raise EngineError(f"checkpoint {checkpoint_id} has {len(received)} committables, announced were {expected}")
        for entry in received:
            if entry.checkpoint_id != checkpoint_id or entry.name in self._open:
                raise EngineError(f"committable {entry.name} of checkpoint {entry.checkpoint_id} is not new here")
            self._open[entry.name] = (entry, COMMIT.initial)

    def snapshot(self, checkpoint_id: int) -> tuple[Committable, ...]:
        """What a restore of this checkpoint has to commit. Later answers do not change the copy."""
        return tuple(entry for entry in self.pending if entry.checkpoint_id <= checkpoint_id)

    def completed(self, checkpoint_id: int) -> list[CommitEffect]:
        """The checkpoint is durable: commit it and everything older."""
        if checkpoint_id > self.permitted_id:
            self._permit = Permit(self._attempt, checkpoint_id)
        return self._commit_permitted()

    def restored(
        self, checkpoint_id: int, committables: Iterable[Committable], *, prepared_until: int = NO_CHECKPOINT
    ) -> list[CommitEffect]:
        """Starts from a durable checkpoint: commits what it holds at once, and aborts anything newer.

        Nothing up to `prepared_until` is aborted: a savepoint with that id may still be restored.
        """
        for entry in committables:
            if entry.checkpoint_id > checkpoint_id:
                raise EngineError(f"checkpoint {checkpoint_id} holds {entry.name} of the later {entry.checkpoint_id}")
            self._open[entry.name] = (replace(entry, retries=0), COMMIT.initial)
        return [AbortNewer(max(checkpoint_id, prepared_until)), *self.completed(checkpoint_id)]

    def ended(self) -> list[CommitEffect]:
        """Without checkpoints, the end of the input makes everything final."""
        newest = max((entry.checkpoint_id for entry, _ in self._open.values()), default=NO_CHECKPOINT)
        return self.completed(newest)

    def answered(self, name: str, result: CommitResult | RetryWith) -> list[CommitEffect]:
        """Takes the answer to a commit."""
        if name not in self._open:
            return []
        entry, phase = self._open[name]
        if isinstance(result, RetryWith):
            return self._retry(replace(entry, payload=result.payload), phase, "retry with another payload")
        if result is CommitResult.RETRY_LATER:
            return self._retry(entry, phase, "retry")
        COMMIT.step(phase, _CAUSES[result])
        if result is CommitResult.FAILED_UNKNOWN:
            return [FailCommit(entry, f"commit of {name} failed for an unknown reason")]
        del self._open[name]
        self.dropped += result is CommitResult.FAILED_KNOWN
        return self._commit_permitted()

    def _retry(self, entry: Committable, phase: CommitPhase, cause: str) -> list[CommitEffect]:
        if entry.retries >= self._max_retries:
            COMMIT.step(phase, "out of retries")
            return [FailCommit(entry, f"commit of {entry.name} failed {self._max_retries + 1} times")]
        entry = replace(entry, retries=entry.retries + 1)
        self._open[entry.name] = (entry, COMMIT.step(phase, cause))
        return [self._commit(entry)]

    def _commit_permitted(self) -> list[CommitEffect]:
        """Commits the oldest checkpoint that the permit covers; the next follows when that is done."""
        oldest = min((entry.checkpoint_id for entry, _ in self._open.values()), default=NO_CHECKPOINT)
        effects: list[CommitEffect] = []
        for name, (entry, phase) in self._open.items():
            if phase is CommitPhase.PREPARED and entry.checkpoint_id == oldest <= self.permitted_id:
                self._open[name] = (entry, COMMIT.step(phase, "permit"))
                effects.append(self._commit(entry))
        return effects

    def _commit(self, entry: Committable) -> Commit:
        assert self._permit is not None
        return Commit(entry, self._permit)

"""Sinks: writers that prepare output, and commit it once the checkpoint is durable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from snapline.errors import UserCodeError
from snapline.protocol.commit import CommitResult, Committable, Permit, RetryWith

__all__ = [
    "CommitResult",
    "CommitScope",
    "Committable",
    "GlobalCommitter",
    "Permit",
    "RetryWith",
    "Sink",
    "SinkContext",
    "SinkWriter",
]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Where a writer or a committer runs. `attempt` grows with every restart of the job.

    `lineage` names the job's line of checkpoints: it stays the same through restarts and new drivers, and differs in
    every start from scratch or from a savepoint. Compare checkpoint ids only within a lineage.
    """

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    attempt: int
    lineage: str = ""

    def __post_init__(self) -> None:
        if not self.lineage:
            object.__setattr__(self, "lineage", self.job_id)


class CommitScope(Enum):
    """Who commits what writers have prepared, and how often.

    SUBTASK: each subtask what its own writer prepared. JOB: one `GlobalCommitter` for all subtasks, once a checkpoint,
    in an operator process. DRIVER: the same, in the driver's process.
    """

    SUBTASK = "SUBTASK"
    JOB = "JOB"
    DRIVER = "DRIVER"


class SinkWriter(ABC):
    """Writes in one subtask.

    All calls come from the task's thread, except `commit`, which is called from other threads, one at a time, while
    writing continues: whatever it shares with the other methods must be safe to share.
    """

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows. They must not become visible as final before they are committed."""

    @abstractmethod
    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        """Make durable what was written since the last call, so that any process can commit it.

        Returns what `commit` needs to know, one entry per commit, as plain data (numbers, text, bytes, lists, dicts
        with text keys); an empty sequence if nothing was written.
        """

    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        """Make visible what was prepared; `committable.payload` is an entry that `prepare` returned.

        `RetryWith(payload)` asks to be called again later with another payload, for example that of the part that is
        not committed yet. Both kinds of retries count towards `Checkpoints(committer_retries=...)`.

        May be called again for the same committable, by this process or another. An exception counts as a failure for
        an unknown reason: the job fails over. Not called if a global committer commits.
        """
        raise UserCodeError(f"{type(self).__name__} has prepared {committable.name}, but has no method commit")

    def abort_newer(self, checkpoint_id: int) -> None:
        """Drop what older attempts prepared for checkpoints after this one and never committed.

        Called once in every subtask, before anything is written; may drop what belongs to other subtasks too.
        """

    @property
    def kept_bytes(self) -> int:
        """Bytes of rows that the writer keeps in memory until `prepare`; 0 if it writes them out.

        Rows that are written out count too if their commit has to read all of them into memory.

        While an older checkpoint is being written or committed, a writer that keeps much is given no more rows.
        """
        return 0

    def state(self, checkpoint_id: int) -> Sequence[Any]:
        """What a writer needs to know after a restore, as plain data; called after `prepare`. Often nothing."""
        return ()

    def recover(self, states: Sequence[Any]) -> None:
        """Take what writers returned from `state` in the restored checkpoint; called first, and only if there is any.

        After a rescale they are divided anew among the subtasks.
        """

    def close(self) -> None:
        """Release everything; what is not prepared is lost and will be written again."""


class GlobalCommitter(ABC):
    """Commits what all writers of a sink have prepared, once per checkpoint; for tables, which need one commit.

    One runs for the whole job. `commit` comes from another thread, one call at a time, in the order of checkpoints.
    """

    @abstractmethod
    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        """Make visible what was prepared for `committable.checkpoint_id`, all of it or nothing.

        `committable.payload` is the list of everything that the writers' `prepare` returned for it, by subtask. Else
        as `SinkWriter.commit`. Not called for checkpoints for which nothing was prepared.
        """

    def abort_newer(self, checkpoint_id: int) -> None:
        """Drop what older attempts prepared for checkpoints after this one; called once, before anything else."""

    def close(self) -> None:
        """Release everything."""


class Sink(ABC):
    """Destination of rows. It is pickled with the job; `writer` is called where tasks run."""

    two_phase: bool = True
    """Whether its writers prepare output and commit it later. False for a sink that writes rows out at once."""

    commit_scope: CommitScope = CommitScope.SUBTASK
    """Who commits: the writers themselves, or a global committer."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `ConfigurationError` if rows of this schema cannot be written; called on the driver."""

    def check_access(self) -> None:
        """Raise an error that says what to do if nothing can be written from this process.

        Called when a job starts: on the driver, then in every operator process before its tasks. Be quick, and leave
        nothing behind that readers take for output.
        """

    def starting(self, job_id: str) -> None:
        """A job with this id starts or resumes; called on the driver, before there are writers."""

    def committed_until(self, lineage: str, uid: str) -> int | None:
        """The newest checkpoint of this lineage whose output is committed, or None if that is not known.

        Asked on the driver when a job starts from a snapshot of another one: output that is newer than the snapshot
        would be written again, so the start is refused.
        """
        return None

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter: ...

    def global_committer(self, context: SinkContext) -> GlobalCommitter:
        """Called if `commit_scope` says so, where that says."""
        raise UserCodeError(f"{type(self).__name__}.commit_scope asks for global_committer(), which it does not have")

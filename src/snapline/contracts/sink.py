"""Sinks: writers that prepare output, and commit it once the checkpoint is durable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.protocol.commit import CommitResult, Committable, Permit, RetryWith

__all__ = ["CommitResult", "Committable", "Permit", "RetryWith", "Sink", "SinkContext", "SinkWriter"]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Where a writer runs. `attempt` grows with every restart of the job."""

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    attempt: int


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

    @abstractmethod
    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        """Make visible what was prepared; `committable.payload` is an entry that `prepare` returned.

        `RetryWith(payload)` asks to be called again later with another payload, for example that of the part that is
        not committed yet. Both kinds of retries count towards `Checkpoints(committer_retries=...)`.

        May be called again for the same committable, by this process or another. An exception counts as a failure for
        an unknown reason: the job fails over.
        """

    @abstractmethod
    def abort_newer(self, checkpoint_id: int) -> None:
        """Drop what older attempts prepared for checkpoints after this one and never committed.

        Called once in every subtask, before anything is written; may drop what belongs to other subtasks too.
        """

    def close(self) -> None:
        """Release everything; what is not prepared is lost and will be written again."""


class Sink(ABC):
    """Destination of rows. It is pickled with the job; `writer` is called where tasks run."""

    two_phase = True
    """Whether its writers prepare output and commit it later. False for a sink that writes rows out at once."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `ConfigurationError` if rows of this schema cannot be written; called on the driver."""

    def check_access(self) -> None:
        """Raise an error that says what to do if nothing can be written from this process.

        Called when a job starts: on the driver, then in every operator process before its tasks. Be quick, and leave
        nothing behind that readers take for output.
        """

    def starting(self, job_id: str) -> None:
        """A job with this id starts or resumes; called on the driver, before there are writers."""

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter: ...

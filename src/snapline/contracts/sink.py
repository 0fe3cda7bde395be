"""What a sink is: a writer that prepares, and commits once the checkpoint is durable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snapline.protocol.commit import CommitResult, Committable, Permit

__all__ = ["CommitResult", "Committable", "Permit", "Sink", "SinkContext", "SinkWriter"]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Where a writer runs. `attempt` rises with every restart of the job."""

    job_id: str
    uid: str
    subtask: int
    parallelism: int
    attempt: int


class SinkWriter(ABC):
    """Writes in one subtask.

    All calls come from the task's thread but `commit`, which comes from others, one at a time, while writing goes on:
    it may share with the rest only what is safe to share.
    """

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows. Nobody outside may see them as final before they are committed."""

    @abstractmethod
    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        """Make durable what was written since the last call, ready to be committed even by another process.

        Given back is what a commit needs to know, one entry for each commit, as plain data (numbers, text, bytes,
        lists, dicts with text keys); nothing if nothing was written.
        """

    @abstractmethod
    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        """Make visible what was prepared; `committable.payload` is what `prepare` gave back.

        It may be called again for the same one, by this process or another. What raises counts as a failure for an
        unknown reason: the job fails over.
        """

    @abstractmethod
    def abort_newer(self, checkpoint_id: int) -> None:
        """Drop what older attempts of this sink have prepared for checkpoints after this one, and never committed.

        Called once, before anything is written, in every subtask; what belongs to other subtasks may be dropped too.
        """

    def close(self) -> None:
        """Release everything; what is not prepared is lost, and will be written again."""


class Sink(ABC):
    """Where rows go. It is pickled with the job; `writer` is called where tasks run."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `ConfigurationError` if rows of this schema cannot be written; called on the driver."""

    def starting(self, job_id: str) -> None:
        """A job with this id begins to run, or goes on; called on the driver, before there are writers."""

    @abstractmethod
    def writer(self, context: SinkContext) -> SinkWriter: ...

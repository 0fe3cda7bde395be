"""Sink subtasks: records gathered into transactions, and the committer's orders carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from snapline.devtools.simulator.kernel import Kernel, Process
from snapline.devtools.simulator.outside import Outside, Transaction
from snapline.protocol.commit import AbortNewer, Commit, CommitEffect, CommitResult, Committable, Committer, FailCommit
from snapline.types import ExecutionId

NO_ANSWER_MS = 20


class Sink:
    """The writer and the committer of one sink subtask.

    `fail` is called when the subtask cannot go on, `on_answer` each time the committer may have nothing left to do.
    """

    def __init__(
        self,
        kernel: Kernel,
        outside: Outside,
        process: Process,
        job: str,
        execution: ExecutionId,
        *,
        max_retries: int,
        fail: Callable[[str], None],
        on_answer: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._outside = outside
        self._process = process
        self._job = job
        self._execution = execution
        self._name = f"{job}/{execution.subtask.vertex}"
        self._committer = Committer(execution.attempt, max_retries=max_retries)
        self._fail = fail
        self._on_answer = on_answer
        self._buffer: list[int] = []

    @property
    def is_committed(self) -> bool:
        """Whether nothing that was prepared waits for its commit."""
        return not self._committer.pending

    def restored(self, checkpoint_id: int, committables: Iterable[Committable], prepared_until: int) -> None:
        """Called once, before anything is written: commit what the restored checkpoint holds, abort what is newer."""
        self._carry_out(self._committer.restored(checkpoint_id, committables, prepared_until=prepared_until))

    def write(self, record_id: int) -> None:
        self._buffer.append(record_id)

    def prepare(self, checkpoint_id: int) -> None:
        """The barrier comes next: what was written so far is a transaction of this checkpoint."""
        if not self._buffer:
            return
        subtask, attempt = self._execution
        name = f"{self._job}/{subtask}/{attempt}/{checkpoint_id}"
        records, self._buffer = tuple(self._buffer), []
        transaction = Transaction(name, self._name, attempt, checkpoint_id, records)
        if not self._outside.prepare(transaction):
            self._fail("the sink is fenced off")
            return
        self._committer.prepared(checkpoint_id, [Committable(name, checkpoint_id)], 1)

    def snapshot(self, checkpoint_id: int) -> tuple[Committable, ...]:
        """What a restore of this checkpoint has to commit."""
        return self._committer.snapshot(checkpoint_id)

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: commit what was prepared for it."""
        self._carry_out(self._committer.completed(checkpoint_id))

    def _carry_out(self, effects: list[CommitEffect]) -> None:
        for effect in effects:
            match effect:
                case Commit():
                    self._kernel.after(self._kernel.between(0, 4), None, self._commit, effect)
                case AbortNewer(checkpoint_id):
                    self._outside.abort_newer(self._name, self._execution.attempt, checkpoint_id)
                case FailCommit(_, error):
                    self._fail(error)
        self._on_answer()

    def _commit(self, order: Commit) -> None:
        """On its way even if the subtask dies now."""
        result = self._outside.commit(order.committable, order.permit, self._name)
        name = order.committable.name
        if result is None:
            self._kernel.after(NO_ANSWER_MS, self._process, self._answered, name, CommitResult.RETRY_LATER)
        else:
            self._kernel.after(self._kernel.between(0, 3), self._process, self._answered, name, result)

    def _answered(self, name: str, result: CommitResult) -> None:
        self._carry_out(self._committer.answered(name, result))

"""Sinks in the form of transactions: begin, pre-commit, commit, abort."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from snapline.contracts.sink import CommitResult, Committable, Permit, Sink, SinkContext, SinkWriter

Transaction: TypeAlias = Any
"""Names a transaction so that any process can commit or abort it: plain data."""


class TransactionSink(Sink):
    """A sink whose output is a row of transactions. Each subtask has its own copy, which `open` gets ready.

    A transaction begins at the start and behind every barrier, and is pre-committed ahead of the next one. What is
    live, such as a connection, belongs into attributes of the copy; the transaction itself is plain data.
    `commit` and `recover_and_commit` come from other threads, one call at a time, and may come twice.
    """

    def open(self, context: SinkContext) -> None:
        """Connect; called where the task runs, before everything else."""

    @abstractmethod
    def begin_transaction(self) -> Transaction:
        """Begin a transaction and return its name."""

    @abstractmethod
    def write_to(self, transaction: Transaction, batch: pa.RecordBatch) -> None:
        """Write rows as part of the transaction."""

    @abstractmethod
    def pre_commit(self, transaction: Transaction) -> None:
        """Make durable what was written, so that a commit cannot fail any more and any process can do it."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Make it visible. An exception fails the job over, and the commit is tried again."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Give up what was written; the transaction was not pre-committed."""

    def recover_and_commit(self, transaction: Transaction) -> None:
        """Commit what another process pre-committed, unless it has committed it too."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Transaction) -> None:
        """Abort what another process left open, if it has not ended by itself."""
        self.abort(transaction)

    def close(self) -> None:
        """Disconnect; called last, also after a failure."""

    def writer(self, context: SinkContext) -> SinkWriter:
        return _TransactionWriter(self, context)


class _TransactionWriter(SinkWriter):
    """Keeps the open transaction in the state, so that whoever restores it aborts it."""

    def __init__(self, sink: TransactionSink, context: SinkContext) -> None:
        self._sink = sink
        self._own = f"{context.lineage}/{context.uid}/{context.subtask}/{context.attempt}/"
        self._has_rows = False
        sink.open(context)
        self._open: Transaction = sink.begin_transaction()

    def write(self, batch: pa.RecordBatch) -> None:
        self._has_rows = True
        self._sink.write_to(self._open, batch)

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        if not self._has_rows:
            return ()
        done, self._has_rows = self._open, False
        self._sink.pre_commit(done)
        self._open = self._sink.begin_transaction()
        return (done,)

    def state(self, checkpoint_id: int) -> Sequence[Any]:
        del checkpoint_id
        return (self._open,)

    def recover(self, states: Sequence[Any]) -> None:
        for transaction in states:
            self._sink.recover_and_abort(transaction)

    def commit(self, committable: Committable, permit: Permit) -> CommitResult:
        del permit
        is_own = committable.name.startswith(self._own)
        commit = self._sink.commit if is_own else self._sink.recover_and_commit
        commit(committable.payload)
        return CommitResult.COMMITTED

    def close(self) -> None:
        try:
            self._sink.abort(self._open)
        finally:
            self._sink.close()

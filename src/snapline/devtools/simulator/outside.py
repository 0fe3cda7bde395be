"""The external system of sinks: transactions that are prepared, then committed once or aborted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.scenario import Fault
from snapline.protocol.commit import CommitResult, Permit


@dataclass(slots=True)
class Transaction:
    """What a sink prepared; `records` are visible once `committed`."""

    name: str
    sink: str
    attempt: int
    checkpoint_id: int
    records: tuple[int, ...]
    committed: bool = False
    aborted: bool = False


class Outside:
    """Remembers every transaction. Refuses commits of attempts older than the newest it has seen."""

    def __init__(self, kernel: Kernel, faults: frozenset[Fault]) -> None:
        self._kernel = kernel
        self._faults = faults
        self._failed_once: set[str] = set()
        self.is_quiet = False
        self.transactions: dict[str, Transaction] = {}
        self.fences: dict[str, int] = {}
        self.on_commit: list[Callable[[Transaction, Permit, str], None]] = []

    def prepare(self, transaction: Transaction) -> bool:
        """Add a prepared transaction. Returns False if its attempt is fenced off."""
        if transaction.attempt < self.fences.get(transaction.sink, 0):
            self._kernel.cover("transaction of an older attempt refused")
            return False
        self.transactions[transaction.name] = transaction
        return True

    def abort_newer(self, sink: str, attempt: int, checkpoint_id: int) -> None:
        """A new attempt of a sink takes over: fence older ones and abort what they prepared after this checkpoint."""
        self.fences[sink] = max(self.fences.get(sink, 0), attempt)
        for transaction in self.transactions.values():
            if (
                transaction.sink == sink
                and transaction.attempt < attempt
                and transaction.checkpoint_id > checkpoint_id
                and not transaction.committed
            ):
                transaction.aborted = True

    def commit(self, name: str, permit: Permit, sink: str) -> CommitResult | None:
        """Commit and answer; None means that the answer is lost although the commit took effect."""
        kernel = self._kernel
        transaction = self.transactions[name]
        if permit.attempt < self.fences.get(sink, 0):
            kernel.cover("commit of an older attempt refused")
            return CommitResult.FAILED_UNKNOWN
        if not self.is_quiet:
            if Fault.COMMIT_FAILS_ALWAYS in self._faults:
                kernel.cover(f"fault: {Fault.COMMIT_FAILS_ALWAYS.value}")
                return CommitResult.RETRY_LATER
            if Fault.COMMIT_FAILS_ONCE in self._faults and name not in self._failed_once and kernel.chance(0.5):
                kernel.cover(f"fault: {Fault.COMMIT_FAILS_ONCE.value}")
                self._failed_once.add(name)
                return CommitResult.RETRY_LATER
        if transaction.committed:
            kernel.cover("committed already")
            return CommitResult.ALREADY_COMMITTED
        for listener in self.on_commit:
            listener(transaction, permit, sink)
        transaction.committed = True
        if not self.is_quiet and Fault.COMMIT_ANSWER_LOST in self._faults and kernel.chance(0.4):
            kernel.cover(f"fault: {Fault.COMMIT_ANSWER_LOST.value}")
            return None
        return CommitResult.COMMITTED

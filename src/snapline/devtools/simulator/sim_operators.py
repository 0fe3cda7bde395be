"""Sources, operators and sinks of a simulated job: they remember how often each record had its effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import pyarrow as pa

from snapline.contracts.master_hook import MasterHook
from snapline.contracts.operator import Operator, OperatorContext
from snapline.contracts.operator_coordinator import OperatorCoordinator
from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith, Sink, SinkContext, SinkWriter
from snapline.contracts.source import ReaderContext, Source, SourceReader, Split, Wait
from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.ledger import TICKETS, Ledger
from snapline.devtools.simulator.outside import Outside, Transaction
from snapline.devtools.simulator.records import SCHEMA, batch_of, mark, record_of
from snapline.devtools.simulator.scenario import Role, SimVertex
from snapline.devtools.simulator.sim_state import SimKeyedState
from snapline.state.operator_state import BroadcastState, OperatorList
from snapline.types import IDLE

HOOK = "audit"
HOOK_MS = 80
"""Duration of a master hook: long enough for a source to request its next split meanwhile."""

REPLACED = "+"

NO_ANSWER_MS = 200
BUFFER_MS = 30


class Surroundings(Protocol):
    """What simulated operators see of the simulation."""

    kernel: Kernel
    outside: Outside
    broken: str | None


# Sources.


class SimSource(Source):
    """Splits with a known number of records."""

    def __init__(self, world: Surroundings, vertex: SimVertex) -> None:
        self._world = world
        self._vertex = vertex

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    @property
    def is_bounded(self) -> bool:
        return True

    def splits(self, parallelism: int) -> Sequence[Split]:
        del parallelism
        return list(range(len(self._vertex.splits)))

    def reader(self, context: ReaderContext) -> SourceReader:
        del context
        return SimReader(self._world, self._vertex)


class SimReader(SourceReader):
    """Reads one or two records at a time. Its positions include splits that are read to the end."""

    def __init__(self, world: Surroundings, vertex: SimVertex) -> None:
        self.at: dict[int, int] = {}
        self._kernel = world.kernel
        self._number = int(vertex.id.rsplit("-", 1)[1])
        self._lengths = vertex.splits

    def add_split(self, split: Split, position: Any) -> None:
        self.at[split] = position or 0

    def read(self) -> pa.RecordBatch | Wait | None:
        for split, offset in self.at.items():
            left = self._lengths[split] - offset
            if left > 0:
                if self._kernel.chance(0.05):
                    return Wait(0.02)
                count = min(left, 1 + offset % 2)
                self.at[split] = offset + count
                offsets = range(offset, offset + count)
                return batch_of([record_of(self._number, split, number) for number in offsets], list(offsets))
        return None

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Any]]:
        del checkpoint_id
        return list(self.at.items())


# Operators.


class SimOperator(Operator):
    """Keeps every record it has seen, as its role demands, and passes it on.

    Records of `broadcast` inputs are kept but not passed on. A `buffered` operator holds records back until it is
    woken or a barrier arrives. A `coordinated` one reports all records to its ledger, and keeps the tickets it gets.
    """

    def __init__(
        self, world: Surroundings, role: Role, broadcast: frozenset[int], *, buffered: bool, coordinated: bool
    ) -> None:
        self.seen: list[int] = []
        self._is_coordinated = coordinated
        self._tickets: OperatorList | None = None
        self._world = world
        self._role = role
        self._broadcast_inputs = broadcast
        self._is_buffered = buffered
        self._buffer: list[pa.RecordBatch] = []
        self._flush_at_ms: int | None = None
        self._watermark_ms = IDLE
        self._keyed: SimKeyedState | None = None
        self._list: OperatorList | None = None
        self._broadcast: BroadcastState | None = None

    @classmethod
    def with_ledger(cls, world: Surroundings) -> SimOperator:
        """An operator for the driver, which asks it for its coordinator only."""
        return cls(world, Role.SPLIT_LIST, frozenset(), buffered=False, coordinated=True)

    def make_coordinator(self) -> OperatorCoordinator | None:
        return Ledger(self._world.kernel) if self._is_coordinated else None

    def open(self, context: OperatorContext) -> None:
        super().open(context)
        states = context.states
        if self._is_coordinated:
            self._tickets = states.operator.list_state(TICKETS, int)
        if self._role is Role.KEYED:
            self._keyed = cast(SimKeyedState, states.keyed)
        elif self._role is Role.UNION_LIST:
            self._list = states.operator.union_list_state("seen", int)
            self.seen = [entry for entry in self._list if entry % context.parallelism == context.subtask]
        else:
            self._list = states.operator.list_state("seen", int)
            self.seen = self._list.get()
        if self._broadcast_inputs:
            self._broadcast = states.operator.broadcast_state("broadcast", int, int)

    @property
    def marks(self) -> list[int]:
        return self._keyed.marks if self._keyed is not None else list(self.seen)

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        if self._world.broken == self.context.uid:
            raise ValueError(f"the code is broken, at {self._world.kernel.now_ms} ms")
        ids, keys = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        if input_index in self._broadcast_inputs:
            assert self._broadcast is not None
            for record_id in ids:
                self._broadcast.put(record_id, self._broadcast.get(record_id, 0) + 1)
            return
        marks = [mark(record_id, input_index) for record_id in ids]
        if self._keyed is not None:
            self._keyed.add(keys, marks)
        else:
            self.seen.extend(marks)
        if self._is_coordinated:
            self.context.send_event(marks)
        if not self._is_buffered:
            self.context.emit(batch)
            return
        self._buffer.append(batch)
        if self._flush_at_ms is None:
            self._flush_at_ms = self.context.clock() + BUFFER_MS

    def handle_event(self, event: int) -> None:
        assert self._tickets is not None
        self._tickets.add(event)

    def _flush(self) -> None:
        buffer, self._buffer = self._buffer, []
        self._flush_at_ms = None
        for batch in buffer:
            self.context.emit(batch)

    def watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms < self._watermark_ms:
            raise self._world.kernel.violated(f"{self.context.uid}: a watermark went back to {timestamp_ms}")
        self._watermark_ms = timestamp_ms
        self._flush()

    def next_wakeup_ms(self) -> int | None:
        return self._flush_at_ms

    def wakeup(self, now_ms: int) -> None:
        del now_ms
        self._flush()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        self._flush()

    def snapshot(self, checkpoint_id: int) -> None:
        del checkpoint_id
        if self._list is not None:
            self._list.set(self.seen)

    def finish(self) -> None:
        self._flush()


# Sinks.


class SimSink(Sink):
    """Collects records into transactions of the external system."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world

    def writer(self, context: SinkContext) -> SinkWriter:
        return SimSinkWriter(self._world, context)


class SimSinkWriter(SinkWriter):
    """The writer of one sink subtask."""

    def __init__(self, world: Surroundings, context: SinkContext) -> None:
        self._kernel = world.kernel
        self._outside = world.outside
        self._context = context
        self._sink = f"{context.job_id}/{context.uid.partition('/')[0]}"
        self._buffer: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._buffer.extend(batch.column(0).to_pylist())

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        if not self._buffer:
            return []
        context, records = self._context, tuple(self._buffer)
        self._buffer = []
        name = f"{self._sink}/{context.subtask}/{context.attempt}/{checkpoint_id}"
        if not self._outside.prepare(Transaction(name, self._sink, context.attempt, checkpoint_id, records)):
            raise RuntimeError("the sink is fenced off")
        return [name]

    def commit(self, committable: Committable, permit: Permit) -> CommitResult | RetryWith:
        kernel = self._kernel
        name = transaction_of(committable.payload)
        result = kernel.outside(kernel.between(0, 40), lambda: self._outside.commit(name, permit, self._sink))
        if result is None:
            kernel.sleep(NO_ANSWER_MS)
            return CommitResult.RETRY_LATER
        if result is CommitResult.RETRY_LATER and kernel.chance(0.5):
            kernel.cover("committable replaced")
            return RetryWith(f"{name}{REPLACED}")
        return result

    def abort_newer(self, checkpoint_id: int) -> None:
        self._outside.abort_newer(self._sink, self._context.attempt, checkpoint_id)


def transaction_of(payload: Any) -> str:
    """The name of the transaction behind a payload, which may have replaced another."""
    return str(payload).removesuffix(REPLACED)


class Audit(MasterHook):
    """A slow master hook."""

    name = HOOK

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def snapshot(self, checkpoint_id: int) -> bytes | None:
        self._kernel.sleep(HOOK_MS)
        return str(checkpoint_id).encode()

    def restore(self, checkpoint_id: int, state: bytes | None) -> None:
        if state is not None and state != str(checkpoint_id).encode():
            raise self._kernel.violated(f"the hook got {state!r} of checkpoint {checkpoint_id}")

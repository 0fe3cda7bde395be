"""A task on the simulator's kernel, with channels that a test fills and reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.unit.runtime.runtime_bench import Bench

from snapline.config import Checkpoints, Execution
from snapline.contracts.operator import Operator
from snapline.graph.execution_plan import PlannedEdge, PlannedOperator, PlannedVertex
from snapline.operators.source_head import ChainMember
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.messages import Acknowledge, CheckpointMeasured, Decline, EventToCoordinator
from snapline.protocol.restore.restore_plan import SubtaskRestore
from snapline.runtime.network.channels import OutputChannel
from snapline.runtime.network.partitioners import make_partitioner
from snapline.runtime.task.input_gate import GateChannel
from snapline.runtime.task.subtask_storage import SubtaskStorage
from snapline.runtime.task.task import Task
from snapline.runtime.task.task_environment import TaskEnvironment, TaskPlan
from snapline.runtime.task.task_outputs import OutputEdge
from snapline.runtime.wire.channel_items import Item, ItemKind, data_item
from snapline.storage.objects.memory_objects import MemoryObjects
from snapline.storage.snapshot_writer import WriteOptions
from snapline.types import NO_CHECKPOINT, Barrier, ExecutionId, Partitioning, SubtaskId, TaskStatus

SCHEMA = pa.schema([("x", pa.int64())])
ME = ExecutionId(SubtaskId("v", 0), 3)


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], schema=SCHEMA)


def values(batch: pa.RecordBatch) -> list[int]:
    return [int(value) for value in batch.column(0).to_pylist()]


def edge(
    name: str = "in", partitioning: Partitioning = Partitioning.REBALANCE, *, output: str = "", input_index: int = 0
) -> PlannedEdge:
    return PlannedEdge(name, "u", "v", partitioning, (), SCHEMA, input_index, output)


class Port:
    """The network's end of an input."""

    def __init__(self) -> None:
        self.consumed_bytes = 0
        self.ends_read = 0

    def consumed(self, size: int) -> None:
        self.consumed_bytes += size

    def end_read(self) -> None:
        self.ends_read += 1


class Output:
    """A channel that keeps what is sent; `overtaken` is what a barrier overtakes in it."""

    def __init__(self, downstream: int = 0, log: list[Any] | None = None) -> None:
        self.edge = 0
        self.upstream = 0
        self.downstream = downstream
        self.may_be_unaligned = True
        self.is_full = False
        self.is_empty = True
        self.queued_bytes = 0
        self.items: list[Item] = []
        self.overtaken: list[pa.RecordBatch] = []
        self.prioritized: list[int] = []
        self._log = log

    def flush_in_pause(self) -> None:
        """Nothing is held back here."""

    def send(self, item: Item) -> None:
        self.items.append(item)
        if self._log is not None:
            self._log.append(f"send {item.kind.name}")

    def send_barrier(self, barrier: Barrier) -> list[pa.RecordBatch]:
        self.send(Item(ItemKind.BARRIER, barrier))
        return self.overtaken if barrier.is_unaligned else []

    def prioritize(self, checkpoint_id: int) -> list[pa.RecordBatch]:
        self.prioritized.append(checkpoint_id)
        return self.overtaken

    def sent(self) -> list[Any]:
        """What was sent, as kinds, and values of data."""
        return [values(item.value) if item.kind.is_data else item.kind.name for item in self.items]


def output_edge(channels: Sequence[Output], name: str = "out", output: str = "") -> OutputEdge:
    partitioner = make_partitioner(Partitioning.REBALANCE, (), len(channels), 128, 0)
    given: Any = channels
    return OutputEdge(edge(name, output=output), given, partitioner)


def gate_channel(
    index: int, port: Port, partitioning: Partitioning = Partitioning.REBALANCE, input_index: int = 0
) -> GateChannel:
    partitioner = make_partitioner(partitioning, ("x",) if partitioning is Partitioning.HASH else (), 2, 128, 0)
    return GateChannel(index, edge(partitioning=partitioning, input_index=input_index), index, 0, partitioner, port)


class Reporter:
    """Keeps what a task reports, in order."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.errors: list[tuple[str, str, bool]] = []
        self.identities: list[ErrorIdentity | None] = []
        self.answers: list[Acknowledge | Decline] = []
        self.measured: list[CheckpointMeasured] = []
        self.events: list[EventToCoordinator] = []

    def task_changed(
        self,
        execution: ExecutionId,
        status: TaskStatus,
        error: str = "",
        trace: str = "",
        *,
        is_final: bool = False,
        identity: ErrorIdentity | None = None,
    ) -> None:
        assert execution == ME
        self.log.append(status.name)
        if error:
            self.errors.append((error, trace, is_final))
            self.identities.append(identity)

    def checkpoint_answered(self, answer: Acknowledge | Decline | CheckpointMeasured) -> None:
        if isinstance(answer, CheckpointMeasured):
            self.measured.append(answer)
            return
        self.log.append(f"{type(answer).__name__} {answer.checkpoint_id}")
        self.answers.append(answer)

    def event_sent(self, event: EventToCoordinator) -> None:
        self.log.append(f"event of {event.operator}")
        self.events.append(event)

    def source_ended(self, execution: ExecutionId) -> None:
        self.log.append("source ended")


class Passing(Operator):
    """Passes rows on, and notes every call."""

    def __init__(self, log: list[Any], name: str = "op") -> None:
        self.log = log
        self.name = name
        self.is_busy_now = False
        self.is_full_now = False
        self.is_committing = False
        self.fails_at: str | None = None

    def _note(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if self.fails_at is not None and what.startswith(self.fails_at):
            raise ValueError(f"no {what}")

    def process(self, batch: pa.RecordBatch, input_index: int) -> None:
        self._note(f"process {values(batch)} of {input_index}")
        self.context.emit(batch)

    def watermark(self, timestamp_ms: int) -> None:
        self._note(f"watermark {timestamp_ms}")

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._note(f"prepare {checkpoint_id}")

    def snapshot(self, checkpoint_id: int) -> None:
        self._note(f"snapshot {checkpoint_id}")

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._note(f"completed {checkpoint_id}")

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note(f"aborted {checkpoint_id}")

    def finish(self) -> None:
        self._note("finish")

    @property
    def is_full(self) -> bool:
        return self.is_full_now

    @property
    def is_busy(self) -> bool:
        return self.is_busy_now

    @property
    def has_unfinished_work(self) -> bool:
        return self.is_committing

    def close(self) -> None:
        self._note("close")


class TaskBench(Bench):
    """A task with this many inputs and outputs. `log` has all that happens in order."""

    def __init__(
        self,
        members: Sequence[ChainMember] | None = None,
        *,
        inputs: int = 1,
        outputs: int = 1,
        checkpoints: Checkpoints | None = None,
        takes_last_checkpoint: bool = True,
        restore: dict[str, SubtaskRestore] | None = None,
        restored_id: int = NO_CHECKPOINT,
        objects: MemoryObjects | None = None,
    ) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.operator = Passing(self.log)
        chain: Sequence[ChainMember] = [self.operator] if members is None else members
        self.reporter = Reporter(self.log)
        self.ports = [Port() for _ in range(inputs)]
        self.outputs = [Output(number, self.log) for number in range(outputs)]
        threads = self.threads
        self.environment = TaskEnvironment(
            threads, threads.executor(2, "state"), threads.executor(2, "channels"), threads.executor(2, "background")
        )
        planned = tuple(
            PlannedOperator(f"op{number}", "op", None, SCHEMA, has_coordinator=True) for number in range(len(chain))
        )
        self.plan = TaskPlan(
            lineage="job",
            job_id="job",
            execution=ME,
            vertex=PlannedVertex("v", "v", 2, None, planned),
            max_parallelism=128,
            checkpoints=checkpoints or Checkpoints(),
            settings=Execution(latency_interval=0),
            takes_last_checkpoint=takes_last_checkpoint,
            restore=restore or {},
            restored_id=restored_id,
            prepared_until=restored_id,
            directory=lambda: Path("unused"),
        )
        self.objects = objects or MemoryObjects()
        storage = SubtaskStorage(self.objects, ME, "shared", WriteOptions(), None)
        self.task = Task(self.plan, chain, storage, self.environment, self.reporter)
        edges = [output_edge(self.outputs)] if outputs else []
        self.task.connect([gate_channel(number, port) for number, port in enumerate(self.ports)], edges)

    def start(self) -> None:
        self.task.start()
        self.run()

    def arrive(self, *items: Item, channel: int = 0) -> None:
        """Let items arrive, and all happen that follows."""
        for item in items:
            self.task.arrive(channel, item)
        self.run()

    def data(self, *numbers: int, channel: int = 0) -> None:
        self.arrive(data_item(rows(*numbers)), channel=channel)

    def barrier(self, checkpoint_id: int, channel: int = 0, **fields: Any) -> None:
        self.arrive(Item(ItemKind.BARRIER, Barrier(checkpoint_id, 0, **fields)), channel=channel)

    def end(self, channel: int = 0) -> None:
        self.arrive(Item(ItemKind.END_OF_DATA, 0), Item(ItemKind.END_OF_PARTITION), channel=channel)

    def read_ends(self) -> None:
        """Those downstream have read the end of the data."""
        for output in self.outputs:
            channel: OutputChannel = output  # type: ignore[assignment]
            self.task.end_was_read(channel)
        self.run()

    def taken_log(self) -> list[Any]:
        log = list(self.log)
        self.log.clear()
        return log

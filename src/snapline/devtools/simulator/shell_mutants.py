"""Shells broken on purpose: effects dropped or swapped, stale messages accepted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from snapline.devtools.simulator.mutant import Mutant, always, nothing
from snapline.devtools.simulator.scenario import Fault, Handler
from snapline.protocol.barriers import barrier_events as b
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.executions import Executions
from snapline.protocol.job import slot_board
from snapline.protocol.job.lifecycle import JobLifecycle
from snapline.protocol.job.regions import Regions
from snapline.protocol.job.slot_board import SlotBoard
from snapline.protocol.subtask import subtask_events as s
from snapline.runtime.master.coordinator_shell import CoordinatorShell
from snapline.runtime.master.operator_coordinators import OperatorCoordinators
from snapline.runtime.master.slots import Slots
from snapline.runtime.scheduler.effect_queue import EffectQueue
from snapline.runtime.scheduler.steady_clock import SteadyClock
from snapline.runtime.slot import attempt as attempt_module
from snapline.runtime.task import restored_inputs
from snapline.runtime.task.input_gate import GateChannel, InputGate
from snapline.runtime.task.operator_chain import OperatorChain
from snapline.runtime.task.subtask_snapshots import SubtaskSnapshots
from snapline.runtime.task.task import Task
from snapline.runtime.task.task_outputs import TaskOutputs
from snapline.storage.snapshot_writer import SnapshotWriter


def _drops(*kinds: type) -> Callable[[Any], Any]:
    """Breaks `_carry_out` of a shell: it ignores effects of these kinds."""

    def build(original: Any) -> Any:
        def carry_out(self: Any, effect: Any) -> None:
            if not isinstance(effect, kinds):
                original(self, effect)

        return carry_out

    return build


def _swaps(first: type, second: type) -> Callable[[Any], Any]:
    """Breaks `_feed` of a task: two effects of one event change places."""

    def build(_original: Any) -> Any:
        def feed(self: Task, event: Any) -> None:
            effects: list[Any] = self._machine.handle(event, self.clock())
            places = {type(effect): place for place, effect in enumerate(effects)}
            if first in places and second in places:
                one, other = places[first], places[second]
                effects[one], effects[other] = effects[other], effects[one]
            self._effects.add(self._carry_out, effects)

        return feed

    return build


def _breadth_first(_original: Any) -> Any:
    def drain(self: EffectQueue) -> None:
        self._is_draining = True
        try:
            while self._added or self._queue:
                self._queue.extend(self._added)
                self._added.clear()
                carry_out, effect = self._queue.popleft()
                carry_out(effect)
        finally:
            self._is_draining = False
            self._queue.clear()
            self._added.clear()

    return drain


class _LaterObjects:
    """Objects that are written some time after `write` returns."""

    def __init__(self, objects: Any, executor: Executor) -> None:
        self._objects = objects
        self._executor = executor

    def write(self, path: str, data: Any) -> None:
        self._executor.submit(self._objects.write, path, data)

    def upload(self, source: Any, path: str) -> None:
        self._executor.submit(self._objects.upload, source, path)

    def delete(self, paths: Any) -> None:
        self._objects.delete(paths)


def _acknowledged_before_written(original: Any) -> Any:
    def write(self: SubtaskSnapshots, checkpoint_id: int) -> None:
        storage, executor = self._storage, self._executor

        class Storage:
            def writer(self, uid: str, barrier: Any) -> SnapshotWriter:
                writer = storage.writer(uid, barrier)
                writer._objects = _LaterObjects(writer._objects, executor)  # type: ignore[assignment]
                return writer

        self._storage = Storage()
        try:
            original(self, checkpoint_id)
        finally:
            self._storage = storage

    return write


def _read_twice(original: Any) -> Any:
    def read_channel(part: Any, reader: Any) -> list[Any]:
        return [*original(part, reader), *original(part, reader)]

    return read_channel


def _whatever_incarnation(original: Any) -> Any:
    def process_greeted(self: SlotBoard, generation: int, index: int, _incarnation: int, *where: Any) -> list[Any]:
        effects: list[Any] = original(self, generation, index, self._slots[index].incarnation, *where)
        return effects

    return process_greeted


def _all_unread(original: Any) -> Any:
    def unread_before_barrier(self: GateChannel, _checkpoint_id: int) -> list[Any]:
        found: list[Any] = original(self, -1)
        return found

    return unread_before_barrier


def _published_unwritten(_original: Any) -> Any:
    def publish(self: CoordinatorShell, snapshot: Any) -> None:
        self.feed(c.Published(snapshot.id))

    return publish


def _metadata_unwritten(_original: Any) -> Any:
    def write_metadata(self: CoordinatorShell, snapshot: Any) -> None:
        self.feed(c.MetadataWritten(snapshot.id, 1))

    return write_metadata


def _wall_clock(_original: Any) -> Any:
    return lambda self: self._scheduler.wall_ms()


def _raw_wall_clock(_original: Any) -> Any:
    return lambda self: self._wall_ns() // 1_000_000


SHELL_MUTANTS: tuple[Mutant, ...] = (
    Mutant("task-prepares-nothing", "the task drops PrepareSnapshot", Task, "_carry_out", _drops(s.PrepareSnapshot)),
    Mutant(
        "task-keeps-completion-back",
        "the task drops NotifyOperatorsCompleted",
        Task,
        "_carry_out",
        _drops(s.NotifyOperatorsCompleted),
    ),
    Mutant(
        "task-swaps-snapshot-and-preparation",
        "the task takes the snapshot before sinks prepare",
        Task,
        "_feed",
        _swaps(s.PrepareSnapshot, s.TakeSnapshot),
    ),
    Mutant(
        "task-swaps-barrier-and-preparation",
        "the task sends the barrier before operators flush",
        Task,
        "_feed",
        _swaps(s.PrepareSnapshot, s.BroadcastBarrier),
    ),
    Mutant("effects-breadth-first", "what follows from an effect comes last", EffectQueue, "_drain", _breadth_first),
    Mutant(
        "acknowledged-before-written",
        "state is acknowledged while it is still being written",
        SubtaskSnapshots,
        "write",
        _acknowledged_before_written,
    ),
    Mutant(
        "replayed-twice",
        "restored in-flight data is replayed twice",
        restored_inputs,
        "read_channel",
        _read_twice,
        handler=Handler.UNALIGNED,
        fault=Fault.SUBTASK_CRASH,
    ),
    Mutant(
        "gate-reads-on",
        "the gate drops BlockChannel",
        InputGate,
        "_carry_out",
        _drops(b.BlockChannel),
        handler=Handler.ALIGNED,
    ),
    Mutant("gate-captures-nothing", "unread data is not captured", GateChannel, "unread_before_barrier", always(())),
    Mutant(
        "gate-captures-too-much",
        "data behind the barrier is captured too",
        GateChannel,
        "unread_before_barrier",
        _all_unread,
        fault=Fault.SLOT_CRASH,
    ),
    Mutant(
        "outputs-not-captured",
        "data overtaken in outputs is not captured",
        SubtaskSnapshots,
        "_capture_output",
        nothing,
    ),
    Mutant(
        "outputs-not-restored",
        "in-flight data of outputs is not sent again",
        TaskOutputs,
        "restore",
        nothing,
        handler=Handler.UNALIGNED,
        fault=Fault.SUBTASK_CRASH,
    ),
    Mutant(
        "stale-incarnation",
        "a replaced operator process is accepted",
        SlotBoard,
        "process_greeted",
        _whatever_incarnation,
        fault=Fault.SLOT_CRASH,
    ),
    Mutant("old-attempt-heard", "reports of an old attempt count", JobLifecycle, "is_current", always(True)),
    Mutant(
        "shell-publishes-nothing",
        "complete without a journal record",
        CoordinatorShell,
        "_publish",
        _published_unwritten,
    ),
    Mutant(
        "shell-writes-no-metadata",
        "published without metadata",
        CoordinatorShell,
        "_write_metadata",
        _metadata_unwritten,
    ),
    Mutant(
        "leaves-uncommitted",
        "tasks leave while commits are under way",
        OperatorChain,
        "has_unfinished_work",
        lambda _original: property(always(False)(None)),
    ),
    Mutant(
        "slots-never-given-back",
        "lost slots are not replaced",
        Slots,
        "_carry_out",
        _drops(slot_board.GiveSlotsBack),
        fault=Fault.ZOMBIE_SLOT,
    ),
    Mutant(
        "finished-not-told",
        "a finished subtask does not end its partitions",
        attempt_module,
        "end_partitions",
        nothing,
        handler=Handler.UNALIGNED,
    ),
    Mutant(
        "coordinators-of-other-regions-lost",
        "operator coordinators of regions that go on are left behind",
        OperatorCoordinators,
        "keep",
        nothing,
        fault=Fault.REGION_CRASH,
    ),
    Mutant(
        "other-regions-unheard",
        "executions of regions that go on count no more once another has restarted",
        Executions,
        "restarted",
        lambda original: lambda self, attempt, *_kept: original(self, attempt),
        handler=Handler.ALTERNATING,
        fault=Fault.REGION_CRASH,
    ),
    Mutant(
        "one-region-per-slot",
        "only one region restarts when a slot is lost",
        Regions,
        "in_slot",
        lambda original: lambda self, slot: frozenset(sorted(original(self, slot))[:1]),
        handler=Handler.UNALIGNED,
        fault=Fault.REGION_CRASH,
    ),
    Mutant(
        "wall-clock-schedule",
        "checkpoints go by the wall clock",
        CoordinatorShell,
        "_now_ms",
        _wall_clock,
        handler=Handler.ALIGNED,
        fault=Fault.CLOCK_SET,
    ),
    Mutant(
        "clock-goes-back",
        "processing time goes back with the wall clock",
        SteadyClock,
        "now_ms",
        _raw_wall_clock,
        fault=Fault.CLOCK_SET,
    ),
)

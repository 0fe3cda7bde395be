"""Machines broken on purpose: a checker that lets one pass has no teeth."""

from __future__ import annotations

from typing import Any

from snapline.devtools.simulator.mutant import Mutant, always, nothing
from snapline.devtools.simulator.scenario import Fault, Handler
from snapline.devtools.simulator.shell_mutants import SHELL_MUTANTS
from snapline.protocol.barriers.aligner import AligningHandler
from snapline.protocol.barriers.alignment import Alignment
from snapline.protocol.barriers.barrier_events import OpenChannels
from snapline.protocol.barriers.tracker import TrackingHandler
from snapline.protocol.commit import Committable, Committer
from snapline.protocol.coordinator import coordinator_events as c
from snapline.protocol.coordinator.checkpoint_coordinator import CheckpointCoordinator
from snapline.protocol.coordinator.event_gate import EventGate
from snapline.protocol.coordinator.operator_events import OperatorEvents
from snapline.protocol.coordinator.pending_checkpoint import PendingCheckpoint
from snapline.protocol.job.repeated_errors import RepeatedErrors
from snapline.protocol.journal import Journal, Publication, Record, RecordKind
from snapline.protocol.keygroups import EMPTY, KeyGroupRange
from snapline.protocol.messages import Acknowledge
from snapline.protocol.restore import channel_replay
from snapline.protocol.restore import restore_plan as restore
from snapline.protocol.restore.redistribution import union
from snapline.protocol.retention import retained_snapshots as retained
from snapline.protocol.retention.retained_snapshots import RetainedSnapshots
from snapline.protocol.retention.shared_registry import SharedStateRegistry
from snapline.protocol.snapshot import Snapshot, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.subtask import subtask_events as s
from snapline.protocol.subtask.subtask_machine import SubtaskMachine
from snapline.runtime.master import job_recovery
from snapline.storage import archive
from snapline.types import SubtaskId


def _early_commit(original: Any) -> Any:
    def acknowledge(self: SubtaskMachine, running: Any) -> list[s.SubtaskEffect]:
        effects: list[s.SubtaskEffect] = original(self, running)
        committed = [
            s.NotifyOperatorsCompleted(effect.checkpoint_id) for effect in effects if isinstance(effect, Acknowledge)
        ]
        return [*effects, *committed]

    return acknowledge


def _acknowledge_twice(original: Any) -> Any:
    def on_sync_finished(self: SubtaskMachine, checkpoint_id: int, duration_ms: int) -> list[s.SubtaskEffect]:
        effects: list[s.SubtaskEffect] = original(self, checkpoint_id, duration_ms)
        return [Acknowledge(self.execution, checkpoint_id, {}, SubtaskMetrics()), *effects]

    return on_sync_finished


def _late_preparation(original: Any) -> Any:
    def trigger(self: SubtaskMachine, *args: Any, **kwargs: Any) -> list[s.SubtaskEffect]:
        effects: list[s.SubtaskEffect] = original(self, *args, **kwargs)
        prepare = [effect for effect in effects if isinstance(effect, s.PrepareSnapshot)]
        return [effect for effect in effects if effect not in prepare] + prepare

    return trigger


def _count_duplicates(original: Any) -> Any:
    def acknowledge(self: PendingCheckpoint, subtask: SubtaskId, state: dict[str, SubtaskState]) -> c.AckResult:
        result: c.AckResult = original(self, subtask, state)
        if result is c.AckResult.DUPLICATE and self._missing_tasks:
            self._missing_tasks.discard(min(self._missing_tasks))
            return c.AckResult.SUCCESS
        return result

    return acknowledge


def _no_fence(original: Any) -> Any:
    def publication(self: Journal, wanted: Record) -> Publication:
        if wanted.kind.is_claim or wanted.kind is RecordKind.SEAL:
            outcome: Publication = original(self, wanted)
            return outcome
        is_in = any(record.is_same(wanted) for record in self.records)
        return Publication.APPENDED if is_in else Publication.OPEN

    return publication


def _no_unconfirmed(original: Any) -> Any:
    def snapshotted(self: OperatorEvents, operator: str, checkpoint_id: int) -> set[int]:
        original(self, operator, checkpoint_id)
        return set()

    return snapshotted


def _shifted_range(original: Any) -> Any:
    def key_group_range(max_parallelism: int, parallelism: int, index: int) -> KeyGroupRange:
        found: KeyGroupRange = original(max_parallelism, parallelism, index)
        return KeyGroupRange(found.start + 1, found.end) if found.end > found.start else EMPTY

    return key_group_range


def _earlier(original: Any) -> Any:
    def unregister(self: SharedStateRegistry[Any], lowest_checkpoint_id: int) -> Any:
        return original(self, lowest_checkpoint_id + 1)

    return unregister


def _complete_unpublished(_original: Any) -> Any:
    def on_metadata_written(self: CheckpointCoordinator, checkpoint_id: int, size_bytes: int) -> None:
        pending = self._pending[checkpoint_id]
        pending.metadata_bytes = size_bytes
        pending.step("metadata written")
        pending.step("published")
        self._complete(pending, pending.timestamp_ms)

    return on_metadata_written


def _leave_at_once(_original: Any) -> Any:
    def on_data_ended(self: SubtaskMachine, _final_from: int) -> list[s.SubtaskEffect]:
        self._outputs_consumed = not self._has_outputs
        self._step("end of data without final checkpoint")
        return [s.BroadcastEndOfData(0), *self._leave()]

    return on_data_ended


def _all_false(_original: Any) -> Any:
    return lambda mapping: tuple(False for _ in range(1 + max((old for new in mapping for old in new), default=0)))


def _own_everything(original: Any) -> Any:
    def add(self: RetainedSnapshots, snapshot: Snapshot, *, claim: bool) -> None:  # noqa: ARG001
        original(self, snapshot, claim=True)

    return add


def _trigger_at_first(original: Any) -> Any:
    def track(self: TrackingHandler, checkpoint_id: int, barrier: Any, now_ms: int) -> Any:
        count = original(self, checkpoint_id, barrier, now_ms)
        if count is not None:
            count.target = 1
        return count

    return track


def _no_committables(_original: Any) -> Any:
    def snapshot(_self: Committer, _checkpoint_id: int) -> tuple[Committable, ...]:
        return ()

    return snapshot


def _old_restore_point(_original: Any) -> Any:
    return lambda _own, given: given


MACHINE_MUTANTS: tuple[Mutant, ...] = (
    Mutant("no-blocking", "aligned channels are read on", Alignment, "block", nothing, handler=Handler.ALIGNED),
    Mutant(
        "early-commit",
        "sinks commit when they acknowledge",
        SubtaskMachine,
        "_acknowledge_if_done",
        _early_commit,
    ),
    Mutant(
        "late-preparation",
        "sinks prepare behind the snapshot",
        SubtaskMachine,
        "_on_triggered",
        _late_preparation,
    ),
    Mutant("no-fence", "an older attempt may publish", Journal, "publication", _no_fence, fault=Fault.ZOMBIE_DRIVER),
    Mutant(
        "failure-closes-the-job",
        "a job that failed is never run again",
        Journal,
        "is_closed",
        lambda _original: property(lambda self: self.ended is not None),
    ),
    Mutant(
        "same-error-for-ever",
        "an error that repeats does not end the job",
        RepeatedErrors,
        "is_too_many",
        lambda _original: property(always(False)(None)),
    ),
    Mutant(
        "ack-twice",
        "acknowledges before it has written, and after",
        SubtaskMachine,
        "_on_sync_finished",
        _acknowledge_twice,
    ),
    Mutant(
        "duplicate-counts",
        "a repeated acknowledgement counts again",
        PendingCheckpoint,
        "acknowledge",
        _count_duplicates,
        fault=Fault.MESSAGE_DOUBLED,
    ),
    Mutant(
        "forget-captured",
        "arriving in-flight data is not captured",
        AligningHandler,
        "is_capturing",
        always(False),
        fault=Fault.STORAGE_SLOW,
    ),
    Mutant(
        "in-flight-dropped",
        "in-flight data is not restored",
        restore,
        "replays",
        always(()),
        handler=Handler.UNALIGNED,
        fault=Fault.SUBTASK_CRASH,
    ),
    Mutant(
        "no-filter",
        "replayed in-flight data is taken by all",
        channel_replay,
        "is_ambiguous",
        _all_false,
        handler=Handler.UNALIGNED,
    ),
    Mutant(
        "union-incomplete",
        "elements of subtasks that have ended are missing",
        PendingCheckpoint,
        "breaks_union_state",
        always(None),
    ),
    Mutant(
        "wrong-owner",
        "a key group has no owner on rescale",
        restore,
        "key_group_range",
        _shifted_range,
        handler=Handler.UNALIGNED,
    ),
    Mutant("split-as-union", "list state goes to everyone", restore, "split", lambda _original: union),
    Mutant(
        "shared-deleted-early",
        "shared files go too soon",
        SharedStateRegistry,
        "unregister_unused",
        _earlier,
        fault=Fault.SUBTASK_CRASH,
    ),
    Mutant(
        "retention",
        "the newest checkpoint goes too",
        retained,
        "subsumed",
        lambda _original: lambda entries, _: tuple(entries),
    ),
    Mutant("delete-unclaimed", "what the job does not own is deleted", RetainedSnapshots, "_restore", _own_everything),
    Mutant("no-sweep", "nobody sweeps up after a crash", archive, "orphans", always(())),
    Mutant("open-gate", "coordinator events overtake the barrier", EventGate, "close", nothing),
    Mutant(
        "events-not-kept",
        "events on their way to a coordinator are not part of the checkpoint",
        OperatorEvents,
        "in_flight",
        lambda _original: lambda _self, _checkpoint_id: {},
    ),
    Mutant(
        "unconfirmed-events",
        "a barrier does not wait for the events before it",
        OperatorEvents,
        "snapshotted",
        _no_unconfirmed,
        handler=Handler.TRACKER,
        fault=Fault.MESSAGE_LATE,
    ),
    Mutant(
        "unpublished",
        "complete before it is canonical",
        CheckpointCoordinator,
        "_on_metadata_written",
        _complete_unpublished,
    ),
    Mutant(
        "no-final-checkpoint",
        "tasks leave with effects uncommitted",
        SubtaskMachine,
        "_on_data_ended",
        _leave_at_once,
    ),
    Mutant(
        "no-committables",
        "prepared transactions are not saved",
        Committer,
        "snapshot",
        _no_committables,
        fault=Fault.DRIVER_CRASH,
    ),
    Mutant(
        "old-restore-point",
        "recovery forgets later checkpoints",
        job_recovery,
        "restore_point",
        _old_restore_point,
        fault=Fault.DRIVER_CRASH,
    ),
    Mutant("ends-ignored", "an ended channel is waited for", OpenChannels, "close", nothing),
    Mutant(
        "tracker-hurries",
        "the tracker triggers at the first barrier",
        TrackingHandler,
        "_track",
        _trigger_at_first,
        handler=Handler.TRACKER,
    ),
)

MUTANTS = (*MACHINE_MUTANTS, *SHELL_MUTANTS)
"""A seed must catch every mutant, and soon."""


def find_mutant(name: str) -> Mutant | None:
    return next((mutant for mutant in MUTANTS if mutant.name == name), None)

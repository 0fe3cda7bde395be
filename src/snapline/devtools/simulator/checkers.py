"""Checkers that stand outside: they see storage, commits and states, and trust no machine's view."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from snapline.devtools.simulator.kernel import Kernel
from snapline.devtools.simulator.ledger import TICKETS, check_ledger
from snapline.devtools.simulator.outside import Outside, Transaction
from snapline.devtools.simulator.records import EDGES_PER_VERTEX, mark, record_of
from snapline.devtools.simulator.scenario import STORE, Role, Scenario, SimVertex
from snapline.devtools.simulator.sim_operators import SimOperator, SimReader, transaction_of
from snapline.devtools.simulator.sim_state import read_keyed
from snapline.devtools.simulator.sim_storage import PeekObjects, SimStorage
from snapline.protocol.commit import Permit
from snapline.protocol.coordinator.coordinator_state import parted
from snapline.protocol.journal import Record as JournalRecord
from snapline.protocol.journal import RecordKind
from snapline.protocol.retention.retention_rules import keeps
from snapline.protocol.snapshot import OperatorPart, OperatorState, Snapshot, StoredObject
from snapline.state import state_files
from snapline.state.channel_state import read_channel
from snapline.storage import snapshot_metadata
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.types import ClaimMode, ExecutionId, JobStatus, Partitioning, SubtaskId


@dataclass(slots=True)
class Effects:
    """What one vertex or subtask has taken in: marks of records, or positions of splits."""

    marks: list[int] = field(default_factory=list)
    splits: dict[int, int] = field(default_factory=dict)

    def add(self, other: Effects) -> None:
        self.marks.extend(other.marks)
        self.splits.update(other.splits)


@dataclass(slots=True)
class Cut:
    """A snapshot's content as the checker reads it."""

    effects: dict[str, Effects]
    retired: dict[str, Effects]
    finished: frozenset[str]
    committables: tuple[str, ...]
    ended: frozenset[str]
    """Vertices of which a subtask has ended by then, perhaps before the job started: it took no more tickets."""


@dataclass(slots=True)
class JobTruth:
    """The facts about one run of the job."""

    given: Snapshot | None
    claim_mode: ClaimMode
    newest_claim: int = 0
    published: set[int] = field(default_factory=set)
    checkpoints: list[Snapshot] = field(default_factory=list)
    starts: dict[str, Snapshot | None] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    attempt: int = 0
    ended_at_ms: int = 0
    finals: dict[tuple[int, SubtaskId], Effects] = field(default_factory=dict)

    def is_given(self, snapshot: Snapshot) -> bool:
        return self.given is not None and self.given.location == snapshot.location


class Checker:
    """Raises `ViolationError` as soon as something happens that must never happen."""

    def __init__(self, kernel: Kernel, scenario: Scenario, storage: SimStorage, outside: Outside) -> None:
        self._kernel = kernel
        self._scenario = scenario
        self._topology = scenario.topology
        self._storage = storage
        self._outside = outside
        self._jobs: dict[str, JobTruth] = {}
        self._cuts: dict[str, Cut] = {}
        self._protected: dict[str, set[str]] = {}
        self._abandoned: set[str] = set()
        self._complete: dict[str, list[int]] = {}
        self._union_lists = {vertex.id for vertex in scenario.topology.vertices if vertex.role is Role.UNION_LIST}
        self._reader = SnapshotReader(PeekObjects(storage))
        for vertex in self._topology.vertices:
            self._complete[vertex.id] = self._all_records(vertex)
        storage.on_record.append(self._on_record)
        storage.on_delete.append(self._on_delete)
        outside.on_commit.append(self._on_commit)

    def _all_records(self, vertex: SimVertex) -> list[int]:
        """Every record a vertex passes on in a complete run."""
        if vertex.role is Role.SOURCE:
            number = int(vertex.id.rsplit("-", 1)[1])
            return [
                record_of(number, split, offset).id
                for split, length in enumerate(vertex.splits)
                for offset in range(length)
            ]
        return [
            record
            for edge in self._topology.inputs(vertex.id)
            if edge.partitioning is not Partitioning.BROADCAST
            for record in self._complete[edge.source]
        ]

    # Reports of drivers and tasks: facts only, no views about checkpoints.

    def job_submitted(self, job: str, given: Snapshot | None, claim_mode: ClaimMode) -> None:
        truth = self._jobs[job] = JobTruth(given, claim_mode)
        if given is not None and claim_mode is ClaimMode.CLAIM:
            truth.checkpoints.append(given)
            self._abandon_siblings(given)

    def _abandon_siblings(self, given: Snapshot) -> None:
        """The new owner of a snapshot owns what it shares with others: those may lose it, and nobody deletes them."""
        for truth in self._jobs.values():
            for snapshot in truth.checkpoints:
                if snapshot.location != given.location:
                    self._abandoned.update(self._paths(snapshot))
                    self._release(snapshot)

    def attempt_started(self, job: str, attempt: int, start: Snapshot | None, vertices: Iterable[str]) -> None:
        truth = self._jobs[job]
        if start is not None and not truth.is_given(start) and start.id not in truth.published:
            raise self._kernel.violated(
                f"attempt {attempt} of {job} starts from {start.location}, which was never published"
            )
        if attempt >= truth.attempt:
            truth.attempt = attempt
            truth.starts.update(dict.fromkeys(vertices, start))
            truth.attempts.update(dict.fromkeys(vertices, attempt))
            if start is not None and start.kind.is_synchronous and all(start.id != s.id for s in truth.checkpoints):
                truth.checkpoints.append(start)  # a restored savepoint counts as retained

    def task_finished(self, job: str, execution: ExecutionId, head: SimReader | SimOperator) -> None:
        """A subtask has finished: what its reader or first operator took in is final."""
        subtask, attempt = execution
        self._jobs[job].finals[attempt, subtask] = _effects_of(head)

    def job_ending(self, job: str, status: JobStatus) -> None:
        """The journal records the end: from here on the job's checkpoints may be deleted, unless retained."""
        truth, settings = self._jobs[job], self._scenario.settings
        truth.ended_at_ms = self._kernel.now_ms
        kept = truth.checkpoints[-settings["retained"] :] if keeps(settings["externalized"], status) else []
        for snapshot in truth.checkpoints:
            if snapshot not in kept and (not snapshot.kind.is_savepoint or truth.is_given(snapshot)):
                self._release(snapshot)

    def reported_complete(self, job: str, snapshot: Snapshot) -> None:
        """A snapshot reported as complete must be canonical."""
        if snapshot.id not in self._jobs[job].published:
            raise self._kernel.violated(
                f"{snapshot.location} was reported as complete, but attempt {snapshot.attempt} is fenced off"
            )

    # Storage.

    def _on_record(self, job: str, record: JournalRecord) -> None:
        truth = self._jobs[job]
        if record.kind.is_claim:
            truth.newest_claim = max(truth.newest_claim, record.attempt)
            if record.status is not None:
                self.job_ending(job, record.status)
        elif record.kind is not RecordKind.SEAL and record.kind is not RecordKind.ID:
            self._on_published(job, truth, record)

    def _on_published(self, job: str, truth: JobTruth, record: JournalRecord) -> None:
        assert record.checkpoint_id is not None
        if record.attempt != truth.newest_claim:
            self._kernel.cover("stray journal record")
            return  # it must never count: starts and commits are checked against what does
        if record.checkpoint_id in truth.published:
            raise self._kernel.violated(f"checkpoint {record.checkpoint_id} of {job} was published twice")
        truth.published.add(record.checkpoint_id)
        snapshot = self._check_snapshot(job, str(record.location))
        if record.kind is RecordKind.CHECKPOINT:
            truth.checkpoints.append(snapshot)
            while len(truth.checkpoints) > self._scenario.settings["retained"]:
                dropped = truth.checkpoints.pop(0)
                if not dropped.kind.is_synchronous or truth.is_given(dropped):
                    self._release(dropped)

    def _check_snapshot(self, job: str, location: str) -> Snapshot:
        """Check a snapshot that counts: everything it refers to is durable, and it is a consistent cut."""
        path = f"{location}/_metadata"
        if path not in self._storage.objects:
            raise self._kernel.violated(f"{location} counts as complete, but its metadata is not durable")
        snapshot = snapshot_metadata.decode(self._storage.objects[path], location)
        for item in snapshot.objects():
            if not item.is_inline and item.path not in self._storage.objects:
                raise self._kernel.violated(f"{location} counts as complete, but {item.path} is missing")
        if location not in self._cuts:
            self._check_cut(job, snapshot)
        self._protect(snapshot)
        return snapshot

    def _protect(self, snapshot: Snapshot) -> None:
        for path in self._paths(snapshot):
            self._protected.setdefault(path, set()).add(snapshot.location)

    def _release(self, snapshot: Snapshot) -> None:
        for path in self._paths(snapshot):
            owners = self._protected.get(path)
            if owners is not None:
                owners.discard(snapshot.location)

    @staticmethod
    def _paths(snapshot: Snapshot) -> list[str]:
        return [*(item.path for item in snapshot.objects() if not item.is_inline), snapshot.metadata_path]

    def _on_delete(self, path: str) -> None:
        owners = self._protected.get(path)
        if owners:
            raise self._kernel.violated(f"{path} was deleted, which {', '.join(sorted(owners))} still needs")

    # Commits.

    def _on_commit(self, transaction: Transaction, permit: Permit, sink: str) -> None:
        truth = self._jobs[sink.split("/", 1)[0]]
        restorable = truth.published | ({truth.given.id} if truth.given is not None else set())
        if permit.checkpoint_id not in restorable:
            raise self._kernel.violated(
                f"{transaction.name} was committed although {permit.checkpoint_id} is not durable"
            )
        if transaction.checkpoint_id > permit.checkpoint_id:
            raise self._kernel.violated(
                f"{transaction.name} was committed with a permit for {permit.checkpoint_id} only"
            )
        if transaction.aborted:
            raise self._kernel.violated(f"{transaction.name} was committed after it had been aborted")

    # Consistent cuts.

    def _check_cut(self, job: str, snapshot: Snapshot) -> None:
        """Every record ahead of the cut has had its effect once, or is in flight; none behind it has."""
        cut = self._read_cut(job, snapshot)
        self._cuts[snapshot.location] = cut
        in_flight: dict[str, list[int]] = {}
        for state in snapshot.operators.values():
            for part in state.subtasks.values():
                for channel in (*part.inputs, *part.outputs):
                    for batch in read_channel(channel, self._reader):
                        in_flight.setdefault(channel.edge, []).extend(batch.column(0).to_pylist())
        for number_of, edge in self._numbered_edges():
            emitted = self._emitted(cut, edge.source)
            name = f"checkpoint {snapshot.id} of {job}, edge {edge.id}"
            if edge.partitioning is Partitioning.BROADCAST:
                if edge.target not in cut.finished:
                    self._check_broadcast(snapshot.operators[edge.target], emitted, name)
                continue
            if edge.target in cut.finished:
                arrived = self._complete[edge.source]
            else:
                marks = cut.effects[edge.target].marks
                arrived = [entry // EDGES_PER_VERTEX for entry in marks if entry % EDGES_PER_VERTEX == number_of]
            self._compare(emitted, arrived + in_flight.get(edge.id, []), name)

    def _numbered_edges(self) -> Iterable[tuple[int, Any]]:
        for vertex in self._topology.vertices:
            yield from enumerate(self._topology.inputs(vertex.id))

    def _emitted(self, cut: Cut, vertex: str) -> list[int]:
        if vertex in cut.finished:
            return self._complete[vertex]
        effects = cut.effects[vertex]
        if vertex.startswith("source-"):
            number = int(vertex.rsplit("-", 1)[1])
            return [record_of(number, split, n).id for split, offset in effects.splits.items() for n in range(offset)]
        return [entry // EDGES_PER_VERTEX for entry in effects.marks]

    def _read_cut(self, job: str, snapshot: Snapshot) -> Cut:
        truth = self._jobs[job]
        starts = {vertex: self._cuts[start.location] for vertex, start in truth.starts.items() if start is not None}
        ended = {vertex for vertex, start in starts.items() if vertex in start.ended}
        effects: dict[str, Effects] = {}
        retired: dict[str, Effects] = {}
        committables: list[str] = []
        for uid, state in snapshot.operators.items():
            if uid.endswith("/commit"):
                self._read_state(state, Effects(), committables)
                continue
            total, gone = effects[uid], retired[uid] = Effects(), Effects()
            if uid in starts and uid in starts[uid].retired:
                gone.add(starts[uid].retired[uid])
            # A finished subtask takes nothing with it that others may need: union lists.
            for index, part in ({} if uid in self._union_lists else state.subtasks).items():
                if part.finished and (truth.attempts[uid], SubtaskId(uid, index)) in truth.finals:
                    gone.add(truth.finals[truth.attempts[uid], SubtaskId(uid, index)])
            total.add(gone)
            self._read_state(state, total, committables)
            if state.fully_finished or any(part.ended or part.finished for part in state.subtasks.values()):
                ended.add(uid)
            if state.coordinator is not None and not state.fully_finished:
                self._check_coordinator(state, total, state.coordinator, may_miss=uid in ended)
        finished = frozenset(uid for uid, state in snapshot.operators.items() if state.fully_finished)
        return Cut(effects, retired, finished, tuple(committables), frozenset(ended))

    def _read_state(self, state: OperatorState, total: Effects, committables: list[str]) -> None:
        for part in state.subtasks.values():
            for named in part.operator:
                elements = self._elements(named)
                if named.name == "splits":
                    for split, offset in map(msgspec.msgpack.decode, elements):
                        if split in total.splits:
                            raise self._kernel.violated(f"split {split} of {state.uid} is assigned twice")
                        total.splits[split] = offset
                elif named.name == "seen":
                    total.marks.extend(elements)
                elif named.name == "committables":
                    committables.extend(transaction_of(msgspec.msgpack.decode(entry)[2]) for entry in elements)
            for keyed in part.keyed:
                for marks in read_keyed(keyed, self._reader, keyed.key_groups).values():
                    total.marks.extend(marks)

    def _check_coordinator(self, state: OperatorState, total: Effects, stored: StoredObject, *, may_miss: bool) -> None:
        data, in_flight = parted(self._reader.read(stored))
        kept = msgspec.msgpack.decode(data)
        if "splits" in kept:
            self._check_splits(state.uid, total, kept["splits"])
            return
        lists = [named for part in state.subtasks.values() for named in part.operator if named.name == TICKETS]
        tickets = [ticket for named in lists for ticket in self._elements(named)]
        check_ledger(self._kernel, state.uid, kept, in_flight, total.marks, tickets, may_miss=may_miss)

    def _check_splits(self, uid: str, total: Effects, unassigned: Iterable[int]) -> None:
        vertex = next(vertex for vertex in self._topology.vertices if vertex.id == uid)
        known = sorted([*total.splits, *unassigned])
        if known != list(range(len(vertex.splits))):
            raise self._kernel.violated(
                f"splits of {uid}: there are {len(vertex.splits)}, the checkpoint knows {known}"
            )

    def _check_broadcast(self, state: OperatorState, emitted: list[int], name: str) -> None:
        for part in state.subtasks.values():
            if part.finished:
                continue
            lists = [named for named in part.operator if named.name == "broadcast"]
            arrived = [record for record, count in self._entries(lists[0]) for _ in range(count)] if lists else []
            self._compare(emitted, arrived, name)

    def _elements(self, part: OperatorPart) -> list[Any]:
        _, table = state_files.read(io.BytesIO(self._reader.read(part.object)))
        elements: list[Any] = table["value"].to_pylist()
        return elements

    def _entries(self, part: OperatorPart) -> list[tuple[int, int]]:
        _, table = state_files.read(io.BytesIO(self._reader.read(part.object)))
        return list(zip(table["map_key"].to_pylist(), table["value"].to_pylist(), strict=True))

    def _compare(self, expected: list[int], actual: list[int], what: str) -> None:
        if self._scenario.is_exactly_once:
            if sorted(expected) == sorted(actual):
                return
        elif not Counter(expected) - Counter(actual):
            return
        lost = sorted((Counter(expected) - Counter(actual)).elements())
        extra = sorted((Counter(actual) - Counter(expected)).elements())
        raise self._kernel.violated(f"{what}: lost {lost[:8]}, too many {extra[:8]}")

    # Ends.

    def job_stopped(self, job: str, savepoint: Snapshot) -> None:
        """The job stopped with a savepoint: exactly its content is committed."""
        for sink in self._sinks():
            self._check_sink(job, sink, [entry // EDGES_PER_VERTEX for entry in self._at(savepoint, sink)])

    def job_finished(self, job: str) -> None:
        """The job reached the end of its data: every record had its effect, in states and at sinks."""
        truth = self._jobs[job]
        for sink in self._sinks():
            self._check_sink(job, sink, self._complete[sink])
        for vertex in self._topology.vertices:
            start = truth.starts[vertex.id]
            before = None if start is None else self._cuts[start.location]
            if vertex.role is Role.SOURCE or (before is not None and vertex.id in before.finished):
                continue
            total = Effects()
            if before is not None:
                total.add(before.retired[vertex.id])
            for (attempt, subtask), final in truth.finals.items():
                if attempt == truth.attempts[vertex.id] and subtask.vertex == vertex.id:
                    total.add(final)
            expected = [
                mark(record, number)
                for number, edge in enumerate(self._topology.inputs(vertex.id))
                if edge.partitioning is not Partitioning.BROADCAST
                for record in self._complete[edge.source]
            ]
            self._compare(expected, total.marks, f"state of {vertex.id} at the end of {job}")

    def _sinks(self) -> list[str]:
        return [vertex.id for vertex in self._topology.vertices if vertex.role is Role.SINK]

    def _at(self, snapshot: Snapshot | None, sink: str) -> list[int]:
        if snapshot is None:
            return []
        cut = self._cuts[snapshot.location]
        if sink in cut.finished:
            return [mark(record, 0) for record in self._complete[sink]]
        return cut.effects[sink].marks

    def _check_sink(self, job: str, sink: str, expected: list[int]) -> None:
        given = self._jobs[job].given
        before = Counter(entry // EDGES_PER_VERTEX for entry in self._at(given, sink))
        remaining = list((Counter(expected) - before).elements())
        committed = [
            record
            for transaction in self._outside.transactions.values()
            if transaction.sink == f"{job}/{sink}" and transaction.committed
            for record in transaction.records
        ]
        self._compare(remaining, committed, f"{sink} at the end of {job}")
        if given is not None:
            for name in self._cuts[given.location].committables:
                if not self._outside.transactions[name].committed:
                    raise self._kernel.violated(
                        f"{name}, prepared in the restored {given.location}, was never committed"
                    )

    def everything_cleaned(self) -> None:
        """Storage may contain only what retained snapshots refer to.

        Writes of killed processes may land after the job has cleaned up. Savepoints are never swept, even if their
        driver died before it could report them.
        """
        for path in self._storage.objects:
            if self._protected.get(path) or path in self._abandoned:
                continue
            if path.startswith(f"{STORE}/savepoints/"):
                self._kernel.cover("savepoint that nobody was told of")
                continue
            job = path.removeprefix(f"{STORE}/checkpoints/").split("/")[0]
            if self._storage.made_at_ms[path] >= self._jobs[job].ended_at_ms:
                self._kernel.cover("late write of a dead process")
                continue
            raise self._kernel.violated(f"{path} was left behind")


def _effects_of(member: SimReader | SimOperator) -> Effects:
    return Effects(splits=dict(member.at)) if isinstance(member, SimReader) else Effects(member.marks)

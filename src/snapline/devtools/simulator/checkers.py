"""Checkers that know the truth and stand outside: they see storage, commits and states, and no machine's opinion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from snapline.devtools.simulator.kernel import Kernel, ViolationError
from snapline.devtools.simulator.operators import EDGES_PER_VERTEX, mark, read_keyed
from snapline.devtools.simulator.outside import Outside, Transaction
from snapline.devtools.simulator.scenario import Role, Scenario, SimVertex
from snapline.devtools.simulator.source import record_of
from snapline.devtools.simulator.storage import SimStorage
from snapline.devtools.simulator.task import SimTask
from snapline.protocol.commit import Permit
from snapline.protocol.journal import Record as JournalRecord
from snapline.protocol.journal import RecordKind
from snapline.protocol.snapshot import OperatorState, Snapshot
from snapline.types import ClaimMode, Partitioning, SubtaskId


@dataclass(slots=True)
class Effects:
    """What one vertex, or one subtask of it, has taken in: marks of records, or positions of splits."""

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


@dataclass(slots=True)
class JobTruth:
    """What is true of one run of the job."""

    given: Snapshot | None
    claim_mode: ClaimMode
    newest_claim: int = 0
    published: set[int] = field(default_factory=set)
    checkpoints: list[Snapshot] = field(default_factory=list)
    start: Snapshot | None = None
    attempt: int = 0
    cleaned_at_ms: int = 0
    finals: dict[tuple[int, SubtaskId], Effects] = field(default_factory=dict)


class Checker:
    """Raises `ViolationError` the moment something happens that must never happen."""

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
        for vertex in self._topology.vertices:
            self._complete[vertex.id] = self._all_records(vertex)
        storage.on_create.append(self._on_create)
        storage.on_delete.append(self._on_delete)
        outside.on_commit.append(self._on_commit)

    def _all_records(self, vertex: SimVertex) -> list[int]:
        """Every record a vertex passes on in a whole run."""
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

    # What drivers and tasks report; none of it is an opinion about checkpoints.

    def job_submitted(self, job: str, given: Snapshot | None, claim_mode: ClaimMode) -> None:
        truth = self._jobs[job] = JobTruth(given, claim_mode)
        if given is not None and claim_mode is ClaimMode.CLAIM:
            truth.checkpoints.append(given)
            self._abandon_siblings(given)

    def _abandon_siblings(self, given: Snapshot) -> None:
        """Who claims a snapshot owns what it shares with others: those may lose it, and nobody cleans them up."""
        for truth in self._jobs.values():
            for snapshot in truth.checkpoints:
                if snapshot.location != given.location:
                    self._abandoned.update(self._paths(snapshot))
                    self._release(snapshot)

    def attempt_started(self, job: str, attempt: int, start: Snapshot | None) -> None:
        truth = self._jobs[job]
        if start is not None and start is not truth.given and start.id not in truth.published:
            raise ViolationError(f"attempt {attempt} of {job} starts from {start.location}, which was never published")
        if attempt >= truth.attempt:
            truth.attempt = attempt
            truth.start = start
            if start is not None and start.kind.is_synchronous and start not in truth.checkpoints:
                truth.checkpoints.append(start)  # a savepoint that is restored counts among those retained

    def task_finished(self, task: SimTask) -> None:
        job, (subtask, attempt) = task.context.job, task.execution
        self._jobs[job].finals[attempt, subtask] = _effects_of(task)

    def checkpoints_released(self, job: str, kept: Iterable[int]) -> None:
        """The job has ended: only these of its checkpoints have to stay."""
        kept_ids = set(kept)
        self._jobs[job].cleaned_at_ms = self._kernel.now_ms
        for snapshot in self._jobs[job].checkpoints:
            if snapshot.id not in kept_ids and snapshot.location.startswith(f"{job}/"):
                self._release(snapshot)

    def reported_complete(self, job: str, snapshot: Snapshot) -> None:
        """The world was told that a snapshot is complete: then it is canonical, whatever happens."""
        if snapshot.id not in self._jobs[job].published:
            raise ViolationError(
                f"{snapshot.location} was reported as complete, but attempt {snapshot.attempt} is fenced off"
            )

    def claimed_released(self, given: Snapshot) -> None:
        """The job has ended and lets go of the snapshot it had claimed."""
        self._release(given)

    # Storage.

    def _on_create(self, path: str, value: Any) -> None:
        job = path.split("/", 1)[0]
        if isinstance(value, JournalRecord):
            truth = self._jobs[job]
            if value.kind.is_claim:
                truth.newest_claim = max(truth.newest_claim, value.attempt)
            elif value.kind is not RecordKind.SEAL and value.kind is not RecordKind.ID:
                self._on_published(job, truth, value)

    def _on_published(self, job: str, truth: JobTruth, record: JournalRecord) -> None:
        assert record.checkpoint_id is not None
        if record.attempt != truth.newest_claim:
            self._kernel.cover("stray journal record")
            return  # it must never count; starts and commits are checked against what does
        if record.checkpoint_id in truth.published:
            raise ViolationError(f"checkpoint {record.checkpoint_id} of {job} was published twice")
        truth.published.add(record.checkpoint_id)
        snapshot = self._check_snapshot(job, str(record.location))
        if record.kind is RecordKind.CHECKPOINT:
            truth.checkpoints.append(snapshot)
            while len(truth.checkpoints) > self._scenario.checkpoints.retained:
                dropped = truth.checkpoints.pop(0)
                if not dropped.kind.is_synchronous or dropped is truth.given:
                    self._release(dropped)

    def _check_snapshot(self, job: str, location: str) -> Snapshot:
        """From here on a snapshot counts: everything it refers to is durable, and it is a consistent cut."""
        path = f"{location}/_metadata"
        if path not in self._storage.objects:
            raise ViolationError(f"{location} counts as complete, but its metadata is not durable")
        snapshot, inline = self._storage.objects[path]
        assert isinstance(snapshot, Snapshot)
        for item in snapshot.objects():
            if item.path not in self._storage.objects and item.path not in inline:
                raise ViolationError(f"{location} counts as complete, but {item.path} is not there")
        if location not in self._cuts:
            self._check_cut(job, snapshot, inline)
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
        return [*(item.path for item in snapshot.objects()), snapshot.metadata_path]

    def _on_delete(self, path: str) -> None:
        owners = self._protected.get(path)
        if owners:
            raise ViolationError(f"{path} was deleted, which {', '.join(sorted(owners))} still needs")

    # Commits.

    def _on_commit(self, transaction: Transaction, permit: Permit, sink: str) -> None:
        truth = self._jobs[sink.split("/", 1)[0]]
        restorable = truth.published | ({truth.given.id} if truth.given is not None else set())
        if permit.checkpoint_id not in restorable:
            raise ViolationError(f"{transaction.name} was committed although {permit.checkpoint_id} is not durable")
        if transaction.checkpoint_id > permit.checkpoint_id:
            raise ViolationError(f"{transaction.name} was committed with a permit for {permit.checkpoint_id} only")
        if transaction.aborted:
            raise ViolationError(f"{transaction.name} was committed after it had been aborted")

    # Consistent cuts.

    def _check_cut(self, job: str, snapshot: Snapshot, inline: dict[str, Any]) -> None:
        """Every record ahead of the cut has had its effect once, everywhere or in flight; none behind it has."""
        cut = self._read_cut(job, snapshot, inline)
        self._cuts[snapshot.location] = cut
        in_flight: dict[str, list[int]] = {}
        for state in snapshot.operators.values():
            for part in state.subtasks.values():
                for channel in (*part.inputs, *part.outputs):
                    records = self._storage.objects[channel.object.path]
                    in_flight.setdefault(channel.edge, []).extend(record.id for record in records)
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

    def _read_cut(self, job: str, snapshot: Snapshot, inline: dict[str, Any]) -> Cut:
        truth = self._jobs[job]
        start = truth.start
        before = self._cuts[start.location].retired if start is not None else {}
        effects: dict[str, Effects] = {}
        retired: dict[str, Effects] = {}
        committables: list[str] = []
        for uid, state in snapshot.operators.items():
            total = effects[uid] = Effects()
            gone = retired[uid] = Effects()
            if uid in before:
                gone.add(before[uid])
            for index, part in state.subtasks.items():
                if part.finished and (snapshot.attempt, SubtaskId(uid, index)) in truth.finals:
                    gone.add(truth.finals[snapshot.attempt, SubtaskId(uid, index)])
            total.add(gone)
            self._read_state(state, total, committables)
            if state.coordinator is not None and not state.fully_finished:
                self._check_splits(uid, total, inline[state.coordinator.path])
        finished = frozenset(uid for uid, state in snapshot.operators.items() if state.fully_finished)
        return Cut(effects, retired, finished, tuple(committables))

    def _read_state(self, state: OperatorState, total: Effects, committables: list[str]) -> None:
        for part in state.subtasks.values():
            for named in part.operator:
                elements = self._storage.objects[named.object.path]
                if named.name == "splits":
                    for split, offset in elements:
                        if split in total.splits:
                            raise ViolationError(f"split {split} of {state.uid} is assigned twice")
                        total.splits[split] = offset
                elif named.name == "seen":
                    total.marks.extend(elements)
                elif named.name == "committables":
                    committables.extend(entry.name for entry in elements)
            for keyed in part.keyed:
                for marks in read_keyed(keyed, self._storage, keyed.key_groups).values():
                    total.marks.extend(marks)

    def _check_splits(self, uid: str, total: Effects, unassigned: Iterable[int]) -> None:
        vertex = next(vertex for vertex in self._topology.vertices if vertex.id == uid)
        known = sorted([*total.splits, *unassigned])
        if known != list(range(len(vertex.splits))):
            raise ViolationError(f"splits of {uid}: there are {len(vertex.splits)}, the checkpoint knows {known}")

    def _check_broadcast(self, state: OperatorState, emitted: list[int], name: str) -> None:
        for part in state.subtasks.values():
            if part.finished:
                continue
            lists = [named for named in part.operator if named.name == "broadcast"]
            arrived = list(self._storage.objects[lists[0].object.path]) if lists else []
            self._compare(emitted, arrived, name)

    def _compare(self, expected: list[int], actual: list[int], what: str) -> None:
        if self._scenario.is_exactly_once:
            if sorted(expected) == sorted(actual):
                return
        elif not Counter(expected) - Counter(actual):
            return
        lost = sorted((Counter(expected) - Counter(actual)).elements())
        extra = sorted((Counter(actual) - Counter(expected)).elements())
        raise ViolationError(f"{what}: lost {lost[:8]}, too many {extra[:8]}")

    # Ends.

    def job_stopped(self, job: str, savepoint: Snapshot) -> None:
        """The job has ended with a savepoint: what is committed is exactly what the savepoint contains."""
        for sink in self._sinks():
            self._check_sink(job, sink, [entry // EDGES_PER_VERTEX for entry in self._at(savepoint, sink)])

    def job_finished(self, job: str) -> None:
        """The job has come to the end of its data: every record had its effect, in states and at sinks."""
        truth = self._jobs[job]
        for sink in self._sinks():
            self._check_sink(job, sink, self._complete[sink])
        before = self._cuts[truth.start.location] if truth.start is not None else None
        for vertex in self._topology.vertices:
            if vertex.role is Role.SOURCE or (before is not None and vertex.id in before.finished):
                continue
            total = Effects()
            if before is not None:
                total.add(before.retired[vertex.id])
            for (attempt, subtask), final in truth.finals.items():
                if attempt == truth.attempt and subtask.vertex == vertex.id:
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
                    raise ViolationError(f"{name}, prepared in the restored {given.location}, was never committed")

    def everything_cleaned(self) -> None:
        """Nothing may be left in storage but what a snapshot that was kept refers to, and the journals' claims.

        What a process that was killed still had on its way may land after the job has cleaned up; nobody can help it.
        A savepoint that is whole is never swept, even if its driver died before it could tell of it.
        """
        objects = self._storage.objects
        for path, value in objects.items():
            if isinstance(value, JournalRecord) or self._protected.get(path) or path in self._abandoned:
                continue
            if path.startswith("savepoints/") and path.rsplit("/", 1)[0] + "/_metadata" in objects:
                self._kernel.cover("savepoint that nobody was told of")
                continue
            job = path.removeprefix("savepoints/").split("/")[0].split("-")[0]
            if self._storage.made_at_ms[path] >= self._jobs[job].cleaned_at_ms:
                self._kernel.cover("late write of a dead process")
                continue
            raise ViolationError(f"{path} was left behind")


def _effects_of(task: SimTask) -> Effects:
    operator = task.operator
    marks = [*operator.seen, *(entry for marks in operator.keyed.values() for entry in marks)]
    return Effects(marks, dict(operator.splits))

"""The journal as a fence: drivers that know nothing of each other share a store that can only "create if absent"."""

from __future__ import annotations

from enum import Enum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapline.protocol.journal import Journal, Publication, Record, RecordKind
from snapline.protocol.snapshot import Snapshot
from snapline.types import JobStatus, SnapshotKind


class Store:
    """The journal's objects, and the truth about them: what was canonical when a newer attempt took over."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.newest_attempt = 0
        self.is_closed = False
        self.canonical_at_takeover: set[Record] = set()
        self.reserved: set[int] = set()
        self.last_confirmed = 0

    def read(self) -> Journal:
        return Journal(self.records.values())

    def create(self, record: Record) -> bool:
        if record.name in self.records:
            return False
        self.records[record.name] = record
        if record.kind.is_claim and record.attempt > self.newest_attempt:
            assert not self.is_closed, "somebody took over a job that was closed"
            self.newest_attempt = record.attempt
            self.is_closed = record.kind is RecordKind.END and record.status is not JobStatus.FAILED
            self.canonical_at_takeover = set(self.read().canonical)
        return True

    def delete(self, record: Record, obsolete: set[Record]) -> None:
        """Delete by name, as a store does, whatever is there by now."""
        before = self.read()
        self.records.pop(record.name, None)
        after = self.read()
        assert set(after.canonical) <= set(before.canonical), "a deletion made a stray canonical"
        assert set(before.canonical) - set(after.canonical) <= obsolete, "a deletion cost more than what was obsolete"
        assert after.latest == before.latest, "where a recovery starts was deleted"

    def check(self) -> None:
        journal = self.read()
        ids = [record.checkpoint_id or 0 for record in journal.canonical]
        assert ids == sorted(set(ids)), "an id is canonical twice, or after a newer one"
        older = {record for record in journal.canonical if record.attempt < self.newest_attempt}
        assert older <= self.canonical_at_takeover, "an attempt published after a newer one had taken over"
        latest = 0 if journal.latest is None else journal.latest.checkpoint_id or 0
        assert latest >= self.last_confirmed, "a recovery would go back behind what the store confirmed to a driver"
        assert journal.attempt == self.newest_attempt
        assert journal.is_closed is self.is_closed


class Goal(Enum):
    """What a driver is about."""

    TAKE_OVER = "take the job over"
    RESERVE = "reserve a checkpoint id"
    CHECKPOINT = "publish a checkpoint"
    STOP = "publish a savepoint to stop with"
    SAVEPOINT = "publish a savepoint"
    CLOSE = "close the job"
    FAIL = "record that the job failed"


class Step(Enum):
    """What a driver does next, apart from choosing a goal. Between any two steps others may do anything."""

    LOOK = "read the journal, and see what to append next"
    APPEND = "append it"
    CLEAN = "find out what is obsolete in what was last read"
    DELETE = "delete one obsolete record"
    CRASH = "forget everything"


_KINDS = {
    Goal.CHECKPOINT: SnapshotKind.CHECKPOINT,
    Goal.STOP: SnapshotKind.SYNC_SAVEPOINT,
    Goal.SAVEPOINT: SnapshotKind.SAVEPOINT,
}


class Driver:
    """Runs a job for as long as it believes to be the one; a slow one believes it long after it is not."""

    def __init__(self, name: str, store: Store, retain: int) -> None:
        self.name = name
        self._store = store
        self._retain = retain
        self._lives = 0
        self._forget()

    def _forget(self) -> None:
        self._lives += 1
        self.token = f"{self.name}-{self._lives}"
        self._goal: Goal | None = None
        self._journal = Journal()
        self._attempt: int | None = None
        self._snapshot: Snapshot | None = None
        self._reservations = 0
        self._id: int | None = None
        self._kept: list[int] = []
        self._wanted: Record | None = None
        self._sent = False
        self._obsolete: list[Record] = []
        self._deleting: set[Record] = set()

    def step(self, step: Step | Goal) -> None:
        match step:
            case Goal():
                if self._goal is None and (self._attempt is None) is (step is Goal.TAKE_OVER):
                    self._begin(step)
            case Step.LOOK:
                if self._goal is not None:
                    self._look(self._goal)
            case Step.APPEND:
                if self._wanted is not None and not self._sent:
                    self._store.create(self._wanted)
                    self._sent = True
            case Step.CLEAN:
                if self._attempt is not None and not self._obsolete:
                    self._obsolete = list(self._journal.obsolete(self._kept))
                    self._deleting = set(self._obsolete)
            case Step.DELETE:
                if self._obsolete:
                    self._store.delete(self._obsolete.pop(0), self._deleting)
            case Step.CRASH:
                self._forget()

    def _begin(self, goal: Goal) -> None:
        if goal is Goal.RESERVE:
            self._reservations += 1
        if goal in _KINDS:
            if self._id is None or self._attempt is None:
                return
            self._snapshot = Snapshot(self._id, _KINDS[goal], self._attempt, 0, f"chk-{self._id}", {})
            self._id = None
        self._goal = goal

    def _look(self, goal: Goal) -> None:
        self._journal = journal = self._store.read()
        self._sent = False
        if self._wanted is not None and journal.publication(self._wanted) is Publication.FENCED:
            self._forget()
            return
        self._wanted = wanted = self._next_record(goal, journal)
        if wanted is not None and journal.publication(wanted) is Publication.FENCED:
            assert self._store.newest_attempt >= wanted.attempt
            self._forget()
        elif wanted is None or journal.publication(wanted) is Publication.APPENDED:
            self._reached(goal, journal)

    def _next_record(self, goal: Goal, journal: Journal) -> Record | None:
        if goal is Goal.TAKE_OVER:
            is_done = journal.is_closed or journal.owns(journal.attempt, self.token)
            return None if is_done else journal.take_over(self.token)
        if goal is Goal.RESERVE:
            assert self._attempt is not None
            return journal.reserve_id(self._attempt, f"{self.token}:{self._reservations}", after=journal.prepared_until)
        if goal is Goal.CLOSE or goal is Goal.FAIL:
            is_owner = self._attempt is not None and journal.owns(self._attempt, self.token)
            status = JobStatus.FINISHED if goal is Goal.CLOSE else JobStatus.FAILED
            return journal.close(self.token, status) if is_owner else None
        assert self._snapshot is not None
        return journal.publish(self._snapshot, self.token)

    def _reached(self, goal: Goal, journal: Journal) -> None:
        if goal is Goal.CLOSE or goal is Goal.FAIL or (goal is Goal.TAKE_OVER and journal.is_closed):
            self._forget()
            return
        if goal is Goal.RESERVE:
            assert self._wanted is not None
            assert self._wanted.checkpoint_id is not None
            assert self._wanted.checkpoint_id not in self._store.reserved, "two have the same id"
            self._id = self._wanted.checkpoint_id
            self._store.reserved.add(self._id)
        self._goal = self._wanted = None
        if goal is Goal.RESERVE:
            return
        if goal is Goal.TAKE_OVER:
            self._attempt = journal.attempt
            points = [record for record in journal.recovery_points if record.kind is RecordKind.CHECKPOINT]
            self._kept = [record.checkpoint_id or 0 for record in points][-self._retain :]
            return
        assert self._snapshot is not None
        assert self._snapshot.id in [record.checkpoint_id for record in journal.canonical], "a vain hope"
        if goal is not Goal.SAVEPOINT:
            self._store.last_confirmed = max(self._store.last_confirmed, self._snapshot.id)
        if goal is Goal.CHECKPOINT:
            self._kept = [*self._kept, self._snapshot.id][-self._retain :]


Script = list[tuple[int, Step | Goal]]


def run(drivers: int, retain: int, script: Script) -> Store:
    store = Store()
    everyone = [Driver(f"driver-{index}", store, retain) for index in range(drivers)]
    for index, step in script:
        everyone[index % drivers].step(step)
        store.check()
    return store


APPENDED = [Step.LOOK, Step.APPEND, Step.LOOK]
TAKEN_OVER: list[Step | Goal] = [Goal.TAKE_OVER, *APPENDED, Step.APPEND, Step.LOOK]
PUBLISHED: list[Step | Goal] = [Goal.RESERVE, *APPENDED, Goal.CHECKPOINT, *APPENDED]
CLEANED: list[Step | Goal] = [Step.CLEAN, *[Step.DELETE] * 6]
_LIFE = [*TAKEN_OVER, *PUBLISHED, *PUBLISHED, *CLEANED]
_DEVIATIONS: list[Step | Goal] = [*Step, *Goal]


@st.composite
def scripts(draw: st.DrawFn, drivers: int) -> Script:
    """Each driver goes through its life again and again, a few steps at a time, and now and then something else."""
    script: Script = []
    position = [0] * drivers
    bursts = st.tuples(st.integers(0, drivers - 1), st.integers(1, 9), st.integers(0, 4 * len(_DEVIATIONS)))
    for driver, count, deviation in draw(st.lists(bursts, min_size=10, max_size=60)):
        if deviation < len(_DEVIATIONS):
            script.append((driver, _DEVIATIONS[deviation]))
        for _ in range(count):
            script.append((driver, _LIFE[position[driver] % len(_LIFE)]))
            position[driver] += 1
    return script


@pytest.mark.slow
@pytest.mark.parametrize("drivers", [2, 3])
@settings(max_examples=200)
@given(retain=st.integers(1, 2), data=st.data())
def test_only_the_newest_attempt_publishes_and_nothing_it_published_is_lost(
    drivers: int, retain: int, data: st.DataObject
) -> None:
    run(drivers, retain, data.draw(scripts(drivers)))


def test_the_drivers_of_this_test_do_get_something_done() -> None:
    """Two attempts, each of which publishes and cleans up, or the property would hold of drivers that do nothing."""
    life = [*TAKEN_OVER, *PUBLISHED, *PUBLISHED, *CLEANED]
    journal = run(2, 1, [(index, step) for index in (0, 1) for step in life]).read()
    assert journal.attempt == 2
    assert [(record.attempt, record.checkpoint_id) for record in journal.canonical] == [(2, 4)]
    assert journal.obsolete([4]) == ()


@pytest.mark.parametrize("goal", [Goal.CHECKPOINT, Goal.CLOSE])
def test_a_driver_that_slept_through_two_takeovers_can_do_no_harm_where_all_it_knew_was_deleted(goal: Goal) -> None:
    store = Store()
    slow, quick = Driver("slow", store, 1), Driver("quick", store, 1)
    life = [*TAKEN_OVER, *PUBLISHED, *CLEANED]
    for driver, script in (
        (slow, [*TAKEN_OVER, Goal.RESERVE, *APPENDED, goal, Step.LOOK]),
        (quick, [*life, Step.CRASH, *life, Step.CRASH, *life]),
        (slow, [Step.APPEND]),
    ):
        for step in script:
            driver.step(step)
            store.check()
    journal = store.read()
    (stray,) = [record for record in journal.records if record.token == "slow-1"]
    assert stray not in journal.canonical
    assert journal.ended is None
    assert stray in journal.obsolete([4])


@st.composite
def journals(draw: st.DrawFn) -> list[Record]:
    """Any journal at all, with gaps, strays, seals in the wrong place and claims that are missing."""
    content = []
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        claimed = draw(st.sampled_from([RecordKind.CLAIM, RecordKind.CLAIM, RecordKind.END, None]))
        if claimed is not None:
            ends = st.sampled_from([JobStatus.FINISHED, JobStatus.FAILED])
            status = draw(ends) if claimed is RecordKind.END else None
            content.append(Record(claimed, attempt, "t", status=status))
        row = draw(st.lists(st.sampled_from([*_ROW, *_ROW, None]), max_size=4))
        row += draw(st.sampled_from([[], [RecordKind.SEAL]]))
        for sequence, kind in enumerate(row):
            if kind is not None:
                checkpoint_id = None if kind is RecordKind.SEAL else attempt * 10 + sequence
                content.append(Record(kind, attempt, "t", sequence, checkpoint_id))
        if draw(st.booleans()):
            content.append(Record(RecordKind.ID, attempt, "t", checkpoint_id=attempt * 10))
    return content


_ROW = [RecordKind.CHECKPOINT, RecordKind.STOP, RecordKind.SAVEPOINT, RecordKind.SEAL]


@pytest.mark.slow
@settings(max_examples=200)
@given(journals(), st.sets(st.integers(10, 44)))
def test_deleting_what_is_obsolete_one_by_one_never_changes_what_is_kept(
    content: list[Record], retained: set[int]
) -> None:
    """At each moment of the deletion, which may stop at any of them."""
    journal = Journal(content)
    obsolete = journal.obsolete(retained)
    for count in range(len(obsolete) + 1):
        rest = Journal(record for record in content if record not in obsolete[:count])
        assert set(rest.canonical) <= set(journal.canonical)
        assert set(journal.canonical) - set(rest.canonical) <= set(obsolete)
        assert (rest.latest, rest.attempt, rest.ended) == (journal.latest, journal.attempt, journal.ended)
        kept = {record for record in journal.recovery_points if record.checkpoint_id in retained}
        assert {record for record in kept if record.kind is RecordKind.CHECKPOINT} <= set(rest.recovery_points)
        assert rest.prepared_until == journal.prepared_until
        assert rest.reserve_id(9, "me") == journal.reserve_id(9, "me")

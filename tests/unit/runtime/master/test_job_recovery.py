"""What an attempt starts from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.runtime.master.master_kit import READ, WRITE, MasterBench, make_spec

from snapline.errors import FencedError, RestoreError
from snapline.protocol.coordinator.carryover import Carryover
from snapline.runtime.master.job_recovery import all_subtasks, claim, coordinators_of, make_coordinator, recover
from snapline.runtime.wire import control_messages as m
from snapline.types import JobStatus, SubtaskId


def checkpointed(bench: MasterBench) -> str:
    """Run the job and complete a checkpoint. Returns its location."""
    bench.begin()
    answer = bench.request()
    bench.acknowledge(1)
    return answer.result(timeout=0)


def test_the_first_attempt_starts_from_the_beginning() -> None:
    bench = MasterBench()
    found = bench.blocking(lambda: claim(bench.storage.archive, 0))
    assert (found.journal.attempt, found.stop) == (1, None)
    recovery = bench.blocking(lambda: recover(bench.spec, bench.storage, 1))
    assert (recovery.snapshot, recovery.restored_id, recovery.own) == (None, -1, ())
    assert recovery.plan.finished == frozenset()


def test_the_next_attempt_starts_from_the_last_checkpoint() -> None:
    first = MasterBench()
    location = checkpointed(first)
    storage = first.other_driver()
    first.blocking(lambda: claim(storage.archive, 0))
    recovery = first.blocking(lambda: recover(first.spec, storage, 2))
    assert recovery.snapshot is not None
    assert (recovery.snapshot.location, recovery.restored_id) == (location, 1)
    assert [snapshot.id for snapshot in recovery.own] == [1]
    coordinator = make_coordinator(first.spec, recovery, Carryover.fresh(first.spec.checkpoints))
    assert coordinator.attempt == 2
    assert [snapshot.id for snapshot in coordinator.retained.snapshots] == [1]


def test_a_driver_that_was_overtaken_recovers_nothing() -> None:
    first = MasterBench()
    first.begin()
    storage = first.other_driver()
    first.blocking(lambda: claim(storage.archive, 0))
    with pytest.raises(FencedError):
        first.blocking(lambda: recover(first.spec, first.storage, 1))


def test_a_given_snapshot_that_is_gone_is_an_error() -> None:
    first = MasterBench()
    location = checkpointed(first)
    given = first.blocking(lambda: first.storage.archive.read_snapshot(location))
    second = MasterBench()
    storage = replace(second.storage, given=given)
    second.blocking(lambda: claim(storage.archive, 0))
    with pytest.raises(RestoreError, match="is no longer there; bring it back or name another in `restore_from`"):
        second.blocking(lambda: recover(second.spec, storage, 1))


def test_a_given_snapshot_that_is_gone_is_not_missed_once_the_job_has_its_own() -> None:
    first = MasterBench()
    location = checkpointed(first)
    own = first.blocking(lambda: first.storage.archive.read_snapshot(location))
    given = replace(own, id=0, location="memory://sim/checkpoints/elsewhere")
    storage = replace(first.other_driver(), given=given)
    first.blocking(lambda: claim(storage.archive, 0))
    recovery = first.blocking(lambda: recover(first.spec, storage, 2))
    assert recovery.given is None
    assert recovery.restored_id == 1


def test_a_job_that_ended_says_so() -> None:
    first = MasterBench()
    first.begin()
    first.master.cancel()
    first.settle()
    first.say(m.TasksCancelled(1))
    first.settle(2000)
    assert first.ends == [JobStatus.CANCELED]
    storage = first.other_driver()
    found = first.blocking(lambda: claim(storage.archive, 0))
    assert found.journal.ended is JobStatus.CANCELED


def test_subtasks_and_coordinators_of_a_plan() -> None:
    spec = make_spec(parallelism=2)
    assert all_subtasks(spec.plan) == {SubtaskId(s.vertex, i) for s in (READ, WRITE) for i in range(2)}
    assert [coordinators_of(vertex) for vertex in spec.plan.vertices] == [("read",), ()]

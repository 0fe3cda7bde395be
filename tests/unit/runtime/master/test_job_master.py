"""The master of a job: one attempt after the other, and each of its ends."""

from __future__ import annotations

import zlib
from concurrent.futures import Future
from dataclasses import replace

import pytest
from tests.unit.runtime.master.master_kit import (
    CHECKPOINTS,
    READ,
    WRITE,
    FakePeer,
    MasterBench,
    make_spec,
    request,
    running,
    supervisor_hello,
)

from snapline.config import Checkpoints, FixedDelay, NoRestart
from snapline.devtools.simulator.scenario import Fault
from snapline.devtools.simulator.sim_storage import SimJournal, SimObjects, SimStorage
from snapline.errors import PeerError
from snapline.graph.execution_plan import PlannedOperator
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.journal import Record, RecordKind
from snapline.protocol.messages import (
    Acknowledge,
    CheckpointAborted,
    CheckpointCompleted,
    Decline,
    OperatorEvent,
    OperatorEventReceived,
    TaskReport,
    TriggerCheckpoint,
)
from snapline.protocol.snapshot import OperatorPart, Snapshot, StoredObject, SubtaskState
from snapline.protocol.statistics.checkpoint_records import SubtaskMetrics
from snapline.protocol.statistics.task_metrics import TaskMetrics
from snapline.runtime.master.job_storage import open_storage
from snapline.runtime.wire import control_messages as m
from snapline.storage import snapshot_metadata
from snapline.types import ExecutionId, FailureReason, JobStatus, OperatorStateMode, SnapshotKind, SubtaskId, TaskStatus

SAME = ErrorIdentity("map", "ValueError")


def failed(
    error: str = "boom", attempt: int = 1, *, is_final: bool = False, identity: ErrorIdentity | None = None
) -> TaskReport:
    return TaskReport(running(READ, attempt), TaskStatus.FAILED, error, "trace", "log", is_final, identity)


def checkpointed(bench: MasterBench, attempt: int = 1, position: int = 0) -> int:
    """Take a checkpoint with the source at this position. Returns its id."""
    bench.worker.said()
    bench.request(f"r{attempt}")
    (trigger,) = bench.told(TriggerCheckpoint)
    checkpoint_id, data = trigger.barrier.id, str(position).encode()
    stored = StoredObject(f"inline:{checkpoint_id}", len(data), crc32=zlib.crc32(data), data=data)
    state = SubtaskState(operator=(OperatorPart("splits", OperatorStateMode.SPLIT, 1, stored),))
    bench.say(
        Acknowledge(running(READ, attempt), checkpoint_id, {"read": state}, SubtaskMetrics()),
        Acknowledge(running(WRITE, attempt), checkpoint_id, {"write": SubtaskState()}, SubtaskMetrics()),
    )
    return checkpoint_id


def texts(bench: MasterBench) -> list[str]:
    return [text for _, text in bench.events.all()]


def test_tasks_are_deployed_and_the_job_runs_when_all_of_them_do() -> None:
    bench = MasterBench()
    deploy = bench.deploy()
    assert [str(task.execution) for task in deploy.tasks] == ["read/0#1", "write/0#1"]
    assert (deploy.attempt, deploy.restored_id) == (1, -1)
    bench.say(TaskReport(running(READ), TaskStatus.RUNNING))
    assert bench.status() is JobStatus.INITIALIZING
    bench.say(TaskReport(running(WRITE), TaskStatus.RUNNING))
    assert bench.status() is JobStatus.RUNNING


def test_a_checkpoint_goes_from_the_request_to_the_notice() -> None:
    bench = MasterBench()
    bench.begin()
    answer = bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    assert trigger.execution == running(READ), "only sources are triggered"
    assert trigger.barrier.location is not None
    assert not answer.done()
    bench.acknowledge(trigger.barrier.id)
    assert {message.execution.subtask for message in bench.told(CheckpointCompleted)} == {READ, WRITE}
    assert answer.result(0) == trigger.barrier.location


def test_splits_go_to_the_subtask_that_asks() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(request(running(READ), "read"))
    (event,) = bench.told(OperatorEvent)
    assert (event.execution, event.operator, event.event["splits"]) == (running(READ), "read", ["a"])
    bench.say(request(running(READ, attempt=7), "read"))
    assert bench.told(OperatorEvent) == [], "another attempt asks"


def test_nobody_speaks_for_others() -> None:
    bench = MasterBench()
    bench.begin()
    stranger = running(SubtaskId("read", 1))
    for message in (TaskReport(stranger, TaskStatus.FAILED), m.SourceEnded(stranger), request(stranger, "read")):
        with pytest.raises(PeerError, match="read/1#1"):
            bench.master.process_said(0, message)
    with pytest.raises(PeerError, match="'write'"):
        bench.master.process_said(0, request(running(READ), "write"))
    with pytest.raises(PeerError, match="ProcessDied"):
        bench.master.process_said(0, m.ProcessDied(1, "", ""))
    assert bench.status() is JobStatus.RUNNING


def test_a_failed_task_leads_to_the_next_attempt_from_the_last_checkpoint() -> None:
    bench = MasterBench()
    bench.begin()
    bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    bench.acknowledge(trigger.barrier.id)
    bench.worker.said()
    bench.say(failed())
    assert bench.status() is JobStatus.FAILING
    assert bench.told(m.Cancel) == [m.Cancel(1)]
    bench.say(m.TasksCancelled(1))
    assert bench.status() is JobStatus.RESTARTING
    assert bench.master.failure.failure is not None
    assert "boom" in bench.master.failure.failure.cause
    bench.settle(1500)
    deploy = bench.deployed()
    assert (deploy.attempt, deploy.restored_id) == (2, trigger.barrier.id)
    bench.run_tasks(attempt=2)
    assert bench.status() is JobStatus.RUNNING


def test_nothing_of_an_older_attempt_counts() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(failed(), m.TasksCancelled(1))
    bench.settle(1500)
    bench.run_tasks(attempt=2)
    assert bench.status() is JobStatus.RUNNING
    answer = bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    bench.say(failed("late"), m.TasksCancelled(1), m.SourceEnded(running(READ)))
    bench.acknowledge(trigger.barrier.id, attempt=1)
    assert bench.status() is JobStatus.RUNNING
    assert not answer.done()
    bench.acknowledge(trigger.barrier.id, attempt=2)
    assert answer.done()


def test_a_lost_process_is_explained_by_whoever_knows_more() -> None:
    bench = MasterBench()
    bench.begin()
    bench.slots.closed(bench.worker, "reset by peer")
    bench.slots.received(bench.supervisor, m.ProcessDied(1, "killed by signal 9", "last words"))
    failure = bench.master.failure.failure
    assert failure is not None
    assert failure.cause.index("reset by peer") < failure.cause.index("killed by signal 9")
    assert failure.log == "last words"
    bench.settle()
    assert bench.status() is JobStatus.RESTARTING, "nothing is left to be cancelled"
    bench.worker = FakePeer()
    bench.greet(2)
    bench.settle(1500)
    assert bench.deployed().attempt == 2


def test_a_process_that_dies_while_nothing_runs_is_replaced_but_not_in_silence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    bench = MasterBench()
    bench.begin()
    bench.say(failed())
    bench.say(m.TasksCancelled(1))
    bench.slots.closed(bench.worker, "reset by peer")
    bench.slots.received(bench.supervisor, m.ProcessDied(1, "killed by signal 9", ""))
    assert bench.status() is JobStatus.RESTARTING
    assert [text for text in texts(bench) if "slot 0" in text] == [
        "the operator process of slot 0 on node (process 20) is lost: reset by peer",
        "the operator process of slot 0 on node has ended: killed by signal 9",
    ]
    assert "has ended: killed by signal 9" in caplog.text
    bench.settle(1500)
    bench.worker = FakePeer()
    bench.greet(2)
    bench.settle()
    assert bench.deployed().attempt == 2


def test_what_follows_from_a_failure_that_says_why_is_left_out_of_the_cause() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(failed("no module named numby"))
    bench.slots.closed(bench.worker, "reset by peer")
    bench.slots.received(bench.supervisor, m.ProcessDied(1, "exited with status 1", ""))
    bench.provider.failed("the stage has failed", False)
    bench.settle()
    failure = bench.master.failure.failure
    assert failure is not None
    assert failure.cause == f"{running(READ)}: no module named numby"


def test_the_provider_says_why_a_slot_was_lost(caplog: pytest.LogCaptureFixture) -> None:
    bench = MasterBench()
    bench.begin()
    bench.slots.closed(bench.supervisor, "reset by peer")
    bench.provider.failed("Python worker exited unexpectedly", False)
    bench.settle()
    failure = bench.master.failure.failure
    assert failure is not None
    assert failure.cause == "slot 0 on node is lost: reset by peer; Python worker exited unexpectedly"
    assert "Python worker exited unexpectedly" in caplog.text


def test_a_job_that_may_not_restart_fails_and_that_is_recorded() -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, restart=NoRestart()))
    bench.begin()
    bench.say(failed())
    assert bench.ends == []
    bench.say(m.TasksCancelled(1))
    assert bench.ends == [JobStatus.FAILED]
    assert bench.status() is JobStatus.FAILING, "the end is told by whoever closes the master"
    assert bench.blocking(bench.storage.archive.read_journal).ended is JobStatus.FAILED


def test_a_job_that_failed_keeps_its_checkpoint_and_its_id() -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, restart=NoRestart()))
    bench.begin()
    checkpoint_id = checkpointed(bench)
    bench.say(failed(), m.TasksCancelled(1))
    assert bench.ends == [JobStatus.FAILED]

    def go_on() -> tuple[bool, int | None, list[int]]:
        objects, journal = SimObjects(bench.sim_storage), SimJournal(bench.sim_storage, "job")
        archive = open_storage(bench.spec, objects, journal, token="another").archive
        found, is_ours = archive.claim(0)
        return is_ours, found.failed_before, [entry.id for entry in archive.recover(found.attempt).snapshots]

    assert bench.blocking(go_on) == (True, 1, [checkpoint_id])


@pytest.mark.parametrize("restore_from", [None, "memory://sim/elsewhere"])
def test_a_job_that_goes_on_after_a_failure_says_so(restore_from: str | None) -> None:
    checkpoints = Checkpoints(storage=CHECKPOINTS.storage, restore_from=restore_from)
    records = [
        Record(RecordKind.CLAIM, 1, "old"),
        Record(RecordKind.CHECKPOINT, 1, "old", 0, 1, "memory://sim/checkpoints/job/chk-1"),
        Record(RecordKind.SEAL, 1, "old", 1),
        Record(RecordKind.END, 2, "old", status=JobStatus.FAILED),
    ]
    snapshot = Snapshot(1, SnapshotKind.CHECKPOINT, 1, 0, "memory://sim/checkpoints/job/chk-1", {})

    def fill(storage: SimStorage) -> None:
        storage.records["job"] = {record.name: record for record in records}
        storage.objects[snapshot.metadata_path] = snapshot_metadata.encode(snapshot)

    bench = MasterBench(make_spec(checkpoints=checkpoints), fill)
    bench.master.start(bench.slots)
    bench.settle()
    (text,) = [text for text in texts(bench) if "had failed" in text]
    assert text.startswith("the job had failed in attempt 1 and goes on under the same id")
    assert ("give it another id" in text) is (restore_from is not None)
    assert bench.master.attempt == 3


def test_the_same_error_ends_the_job_at_its_limit_and_is_counted_aloud(caplog: pytest.LogCaptureFixture) -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, restart=FixedDelay(attempts=99), same_error_limit=3))
    bench.begin()
    for attempt in range(1, 4):
        bench.say(failed(f"bad row {attempt}", attempt, identity=SAME), m.TasksCancelled(attempt))
        assert bench.master.repeats == attempt
        if attempt < 3:
            bench.settle(1500)
            bench.run_tasks(attempt + 1)
    assert bench.ends == [JobStatus.FAILED]
    assert "the same error for the 2nd time" in texts(bench)
    last = "the same error for the 3rd time without a completed checkpoint in between, so the job fails"
    assert any(text.startswith(last) for text in texts(bench))
    assert bench.master.failure.failure is not None
    assert "bad row 3 (the same error for the 3rd time" in bench.master.failure.failure.cause
    assert "the same error for the 2nd time" in caplog.text
    assert bench.blocking(bench.storage.archive.read_journal).ended is JobStatus.FAILED


@pytest.mark.parametrize("moves", [True, False])
def test_a_checkpoint_between_two_errors_begins_a_new_count_if_the_job_has_moved(moves: bool) -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, restart=FixedDelay(attempts=99), same_error_limit=9))
    bench.begin()
    for attempt in range(1, 5):
        checkpointed(bench, attempt, position=attempt if moves else 0)
        bench.say(failed("bad row", attempt, identity=SAME), m.TasksCancelled(attempt))
        assert bench.master.repeats == (1 if moves else attempt)
        bench.settle(1500)
        bench.run_tasks(attempt + 1)
    assert bench.status() is JobStatus.RUNNING


@pytest.mark.parametrize("harm", ["metadata damaged", "metadata gone", "file gone", "file cut off"])
def test_a_checkpoint_that_is_not_whole_ends_the_job_at_once_and_nothing_is_touched(harm: str) -> None:
    bench = MasterBench()
    bench.begin()
    bench.worker.said()
    bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    location = str(trigger.barrier.location)
    objects, path = bench.sim_storage.objects, f"{location}/a1-state"
    objects[path] = b"0123456789"
    state = SubtaskState(operator=(OperatorPart("x", OperatorStateMode.SPLIT, 1, StoredObject(path, 10)),))
    bench.say(
        Acknowledge(running(READ), trigger.barrier.id, {"read": state}, SubtaskMetrics()),
        Acknowledge(running(WRITE), trigger.barrier.id, {"write": SubtaskState()}, SubtaskMetrics()),
    )
    metadata = f"{location}/_metadata"
    match harm:
        case "metadata damaged":
            objects[metadata] = objects[metadata][:-9]
        case "metadata gone":
            del objects[metadata]
        case "file gone":
            del objects[path]
        case "file cut off":
            objects[path] = b"012345678"
    left = dict(objects)
    bench.say(failed(), m.TasksCancelled(1))
    bench.settle(1500)
    assert bench.ends == [JobStatus.FAILED]
    assert bench.master.attempt == 2
    failure = bench.master.failure.failure
    assert failure is not None
    assert failure.cause.startswith("the job can't recover:")
    assert "Restore it from a backup" in failure.cause
    assert bench.sim_storage.objects == left
    assert bench.blocking(bench.storage.archive.read_journal).ended is None


def test_storage_that_is_away_goes_on_being_tried() -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS, restart=FixedDelay(attempts=1000, delay="1s")))
    bench.begin()
    bench.sim_storage._faults = frozenset({Fault.STORAGE_FAILS})
    bench.sim_storage._fails = lambda metadata, share: True  # type: ignore[method-assign]
    bench.say(failed(), m.TasksCancelled(1))
    for _ in range(40):
        bench.settle(1000)
    assert bench.ends == []
    assert bench.master.repeats == 0
    assert sum("failed: the store did not answer" in text for text in texts(bench)) > 10


def test_a_failed_checkpoint_is_an_event_and_the_latest_that_failed() -> None:
    bench = MasterBench(make_spec(checkpoints=CHECKPOINTS))
    bench.begin()
    bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)
    bench.say(Decline(running(READ), trigger.barrier.id, FailureReason.CHECKPOINT_DECLINED, "no room"))
    (text,) = [text for text in texts(bench) if "failed" in text]
    assert text.startswith(f"checkpoint {trigger.barrier.id} failed (CHECKPOINT_DECLINED): read/0#1 declined: no room;")
    latest = bench.master.statistics.latest.failed
    assert latest is not None
    assert latest.id == trigger.barrier.id


def test_a_job_without_completed_checkpoints_says_so() -> None:
    bench = MasterBench(make_spec(checkpoints=replace_interval("1s")))
    bench.begin()
    for _ in range(10):
        bench.settle(1000)
    assert any(text.startswith("no checkpoint has completed for") for text in texts(bench))


def replace_interval(interval: str) -> Checkpoints:
    return Checkpoints(storage=CHECKPOINTS.storage, interval=interval)


def test_a_failure_that_no_restart_can_mend_leaves_the_job_to_another_version() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(failed("no fit", is_final=True), m.TasksCancelled(1))
    assert bench.ends == [JobStatus.FAILED]
    journal = bench.blocking(bench.storage.archive.read_journal)
    assert journal.ended is None


def test_a_cancelled_job_cancels_its_tasks_and_records_its_end() -> None:
    bench = MasterBench()
    bench.begin()
    bench.master.cancel()
    bench.settle()
    assert bench.told(m.Cancel) == [m.Cancel(1)]
    assert bench.ends == []
    bench.say(m.TasksCancelled(1))
    assert bench.ends == [JobStatus.CANCELED]
    assert bench.blocking(bench.storage.archive.read_journal).ended is JobStatus.CANCELED


def test_a_job_whose_tasks_have_finished_ends() -> None:
    bench = MasterBench()
    bench.begin()
    bench.say(*(TaskReport(running(subtask), TaskStatus.FINISHED) for subtask in (READ, WRITE)))
    bench.settle()
    assert bench.ends == [JobStatus.FINISHED]


def test_the_end_of_all_sources_asks_for_the_last_checkpoint() -> None:
    bench = MasterBench()
    bench.begin()
    assert bench.told(TriggerCheckpoint) == []
    bench.say(m.SourceEnded(running(READ)))
    (trigger,) = bench.told(TriggerCheckpoint)
    bench.acknowledge(trigger.barrier.id)
    assert len(bench.told(TriggerCheckpoint)) == 1, "others may not have seen the end yet"


def test_a_request_that_comes_early_waits_until_the_job_runs() -> None:
    bench = MasterBench()
    bench.deploy()
    answer = bench.request()
    assert bench.told(TriggerCheckpoint) == []
    bench.run_tasks()
    assert len(bench.told(TriggerCheckpoint)) == 1
    assert not answer.done()


def test_a_checkpoint_that_times_out_is_aborted_at_the_tasks() -> None:
    bench = MasterBench()
    bench.begin()
    answer = bench.request()
    for _ in range(0, bench.spec.checkpoints.timeout_ms + 1000, 1000):
        bench.settle(1000)
    assert answer.exception(0) is not None
    assert {message.execution.subtask for message in bench.told(CheckpointAborted)} == {READ, WRITE}


def test_a_stop_ends_with_its_savepoint() -> None:
    bench = MasterBench()
    bench.begin()
    answer = bench.request(kind=SnapshotKind.SYNC_SAVEPOINT, target="memory://sim/savepoints")
    (trigger,) = bench.told(TriggerCheckpoint)
    assert trigger.barrier.snapshot is SnapshotKind.SYNC_SAVEPOINT
    bench.acknowledge(trigger.barrier.id)
    assert not answer.done(), "the job has not ended"
    bench.say(*(TaskReport(running(subtask), TaskStatus.FINISHED) for subtask in (READ, WRITE)))
    bench.master.requests.ended(bench.ends[0])
    assert answer.result(0) == trigger.barrier.location


def test_another_driver_that_takes_over_suspends_this_one() -> None:
    bench = MasterBench()
    bench.begin()
    answer = bench.request()
    (trigger,) = bench.told(TriggerCheckpoint)

    def take_over() -> None:
        objects, journal = SimObjects(bench.sim_storage), SimJournal(bench.sim_storage, "job")
        open_storage(bench.spec, objects, journal, token="another").archive.claim(0)

    bench.blocking(take_over)
    bench.acknowledge(trigger.barrier.id)
    assert answer.exception(0) is not None, "it could not be published"
    bench.say(m.TasksCancelled(1))
    assert bench.ends == [JobStatus.SUSPENDED]


def test_slots_that_can_never_be_are_the_end_but_not_recorded() -> None:
    bench = MasterBench()
    bench.master.start(bench.slots)
    bench.settle()
    bench.provider.failed("no such cluster", True)
    bench.settle()
    assert bench.ends == [JobStatus.FAILED]
    assert bench.blocking(bench.storage.archive.read_journal).ended is None


def test_slots_that_are_gone_for_ever_end_a_running_job_without_another_attempt() -> None:
    bench = MasterBench()
    bench.begin()
    bench.provider.failed("Spark's JVM has ended", True)
    bench.settle()
    bench.say(m.TasksCancelled(1))
    bench.settle(3000)
    assert bench.ends == [JobStatus.FAILED]
    assert bench.master.attempt == 1
    assert bench.blocking(bench.storage.archive.read_journal).ended is None


def test_after_the_close_nothing_more_happens() -> None:
    bench = MasterBench()
    bench.begin()
    bench.master.close()
    bench.worker.said()
    bench.say(failed())
    bench.settle(10_000)
    assert bench.worker.said() == []
    assert bench.status() is JobStatus.RUNNING


# Regions: two pipelines in one slot.

READ_2, WRITE_2 = SubtaskId("read-2", 0), SubtaskId("write-2", 0)


class RegionBench(MasterBench):
    """The job of the kit, twice in one; the test plays the tasks of both pipelines."""

    def __init__(self) -> None:
        spec = make_spec(checkpoints=CHECKPOINTS, cancel_timeout="2s")
        read, write = spec.plan.vertices
        more = [replace(it, id=f"{it.id}-2", operators=_renamed(it.operators)) for it in (read, write)]
        edge = replace(spec.plan.edges[0], id="e-2", source="read-2", target="write-2")
        plan = replace(spec.plan, vertices=(read, write, *more), edges=(*spec.plan.edges, edge))
        super().__init__(replace(spec, plan=plan, sources={**spec.sources, "read-2": spec.sources["read"]}))
        self.attempts = dict.fromkeys((READ, WRITE, READ_2, WRITE_2), 1)
        self.master.start(self.slots)
        self.settle()
        assert self.slots.greeted(self.supervisor, supervisor_hello()) is None
        self.greet(1)

    def report(self, status: TaskStatus, *subtasks: SubtaskId) -> None:
        self.say(*(TaskReport(self.of(subtask), status, "boom") for subtask in subtasks))

    def of(self, subtask: SubtaskId) -> ExecutionId:
        return running(subtask, self.attempts[subtask])

    def checkpoint(self, name: str) -> Future[str]:
        self.worker.said()
        answer = self.request(name)
        triggers = self.told(TriggerCheckpoint)
        assert {trigger.execution for trigger in triggers} == {self.of(READ), self.of(READ_2)}
        for subtask in self.attempts:
            self.say(self.acknowledgement(self.of(subtask), triggers[0].barrier.id))
        return answer

    def acknowledgement(self, execution: ExecutionId, checkpoint_id: int) -> Acknowledge:
        return Acknowledge(execution, checkpoint_id, {execution.subtask.vertex: SubtaskState()}, SubtaskMetrics())


def _renamed(operators: tuple[PlannedOperator, ...]) -> tuple[PlannedOperator, ...]:
    return tuple(replace(operator, uid=f"{operator.uid}-2") for operator in operators)


def regions_running() -> RegionBench:
    bench = RegionBench()
    assert [deploy.region for deploy in bench.told(m.Deploy)] == [0, 1]
    bench.report(TaskStatus.RUNNING, READ, WRITE, READ_2, WRITE_2)
    assert bench.status() is JobStatus.RUNNING
    assert bench.checkpoint("first").done()
    bench.worker.said()
    return bench


def test_a_region_restarts_while_the_other_goes_on() -> None:
    bench = regions_running()
    bench.request("cut off")
    (checkpoint_id,) = {trigger.barrier.id for trigger in bench.told(TriggerCheckpoint)}
    bench.report(TaskStatus.FAILED, WRITE_2)
    told = bench.worker.said()
    assert [message for message in told if isinstance(message, m.Cancel)] == [m.Cancel(1, [1])]
    assert {it.execution for it in told if isinstance(it, CheckpointAborted)} >= {running(READ), running(WRITE)}
    bench.say(request(running(READ), "read"))
    (event,) = bench.told(OperatorEvent)
    assert event.execution == running(READ), "its coordinator goes on"
    bench.say(m.TasksCancelled(1, [1]))
    assert bench.status() is JobStatus.RESTARTING
    bench.settle(2000)
    (deploy,) = bench.told(m.Deploy)
    assert (deploy.region, deploy.attempt, deploy.restored_id) == (1, 2, 1)
    assert [str(task.execution) for task in deploy.tasks] == ["read-2/0#2", "write-2/0#2"]
    bench.say(bench.acknowledgement(running(WRITE_2, 1), checkpoint_id), TaskReport(running(READ_2), TaskStatus.FAILED))
    assert bench.status() is JobStatus.INITIALIZING, "what the old executions say means nothing"
    bench.attempts |= {READ_2: 2, WRITE_2: 2}
    bench.report(TaskStatus.RUNNING, READ_2, WRITE_2)
    assert bench.status() is JobStatus.RUNNING
    bench.say(OperatorEventReceived(1, event.sequence))
    assert bench.checkpoint("both").done()
    assert "restarting 2 of 4 subtasks: region of 'read-2'" in texts(bench)


def test_both_regions_restart_when_their_process_has_to_be_killed() -> None:
    bench = regions_running()
    bench.report(TaskStatus.FAILED, WRITE_2)
    bench.settle(2100)
    assert bench.supervisor.said()[-1] == m.StartProcess(2), "the first one was killed"
    assert bench.status() in (JobStatus.RESTARTING, JobStatus.INITIALIZING)
    bench.worker = FakePeer()
    bench.settle(1500)
    bench.greet(2)
    assert [(it.region, it.attempt) for it in bench.told(m.Deploy)] == [(0, 2), (1, 2)]
    assert "restarting all 4 subtasks of 2 regions" in texts(bench)


def test_an_error_of_a_coordinator_fails_its_region() -> None:
    bench = regions_running()
    bench.master.failure_requested(1, "its coordinator", None, "read-2")
    bench.settle()
    assert bench.told(m.Cancel) == [m.Cancel(1, [1])]


def test_rows_of_the_region_that_goes_on_are_still_counted() -> None:
    bench = regions_running()
    metrics = [TaskMetrics(running(subtask), 9, 9, 9, 9, 9, 9, 9, 9, 9, 9) for subtask in (READ, READ_2)]
    bench.say(m.Metrics(metrics, 1))
    bench.report(TaskStatus.FAILED, READ_2)
    bench.say(m.TasksCancelled(1, [1]))
    bench.settle(2000)
    assert bench.status() is JobStatus.INITIALIZING
    assert list(bench.master.monitor.metrics) == ["read/0"]
    bench.say(m.Metrics(metrics, 1))
    assert list(bench.master.monitor.metrics) == ["read/0"], "the old execution of the other does not count"

"""What outsiders see of a job, put together on the master's loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.runtime.master.master_kit import CHECKPOINTS, READ, WRITE, MasterBench, make_spec, running

from snapline.config import FixedDelay, Monitoring
from snapline.devtools.kit.sample_views import sample_statistics, sample_view
from snapline.errors import StorageError
from snapline.protocol.messages import TaskReport, TriggerCheckpoint
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord
from snapline.protocol.statistics.job_past import JobPast
from snapline.protocol.statistics.job_view import AttemptFailure, JobView
from snapline.protocol.statistics.task_metrics import CommitFigures, TaskMetrics
from snapline.runtime.master.job_monitor import MAX_FAILURES, Watcher
from snapline.runtime.wire.control_messages import Metrics, TasksCancelled
from snapline.types import JobStatus, SubtaskId, TaskStatus


class Notes(Watcher):
    """A watcher that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.changes = 0

    def claimed(self) -> None:
        self.heard.append(("claimed",))

    def changed(self) -> None:
        self.changes += 1

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        self.heard.append(("checkpoint", record.id, record.status.value))

    def attempt_ended_start(self, attempt: int, started_ms: int, ended_ms: int, failure: str) -> None:
        assert started_ms <= ended_ms
        self.heard.append(("start", attempt, failure))


class Setup(MasterBench):
    def __init__(self, history: int = 10) -> None:
        spec = make_spec(checkpoints=CHECKPOINTS, restart=FixedDelay(attempts=9, delay="1s"))
        super().__init__(replace(spec, monitoring=Monitoring(enabled=False, history=history)))
        self.notes = Notes()
        self.master.monitor.watchers.append(self.notes)

    def view(self) -> JobView:
        master = self.master
        return master.monitor.view(master.status, master.attempt, master.repeats, None, "http://here")

    def fail(self, attempt: int = 1) -> None:
        report = TaskReport(running(WRITE, attempt), TaskStatus.FAILED, "it broke", "the trace", "the log")
        self.say(report)

    def report(self, subtask: SubtaskId, rows: int, **more: object) -> None:
        figures: dict[str, object] = {
            "rows_in": rows, "rows_out": rows, "bytes_in": 0, "bytes_out": 0, "interval_ms": 1000, "busy_ms": 500,
            "idle_ms": 500, "backpressured_ms": 0, "queued_in_bytes": 0, "queued_out_bytes": 0, **more,
        }  # fmt: skip
        self.say(Metrics((TaskMetrics(running(subtask), **figures),), 4096, 77))  # type: ignore[arg-type]


def checkpoint(setup: Setup, attempt: int = 1) -> int:
    setup.request(f"r{setup.scheduler.now_ms()}")
    number = setup.told(TriggerCheckpoint)[0].barrier.id
    setup.acknowledge(number, attempt)
    return number


def test_a_view_before_anything_has_happened() -> None:
    view = Setup().view()
    assert (view.job_id, view.name, view.status, view.attempt, view.url) == (
        "job",
        "job",
        JobStatus.CREATED,
        0,
        "http://here",
    )
    assert [vertex.id for vertex in view.plan.vertices] == ["read", "write"]
    assert [(task.id, task.status) for task in view.subtasks] == [
        (READ, TaskStatus.CREATED),
        (WRITE, TaskStatus.CREATED),
    ]
    assert view.is_live


def test_tasks_are_shown_as_they_report() -> None:
    setup = Setup()
    setup.begin()
    setup.report(READ, 100)
    setup.report(READ, 400)
    read, write = setup.view().subtasks
    assert (read.status, read.attempt, read.host, read.rows_in_per_second) == (TaskStatus.RUNNING, 1, "node", 300.0)
    assert write.metrics is None
    assert setup.view().memory_bytes == {0: 4096}
    assert setup.view().state_memory_bytes == {0: 77}


def test_commits_are_noted_with_their_checkpoint() -> None:
    setup = Setup()
    setup.begin()
    number = checkpoint(setup)
    setup.report(WRITE, 1, commits=CommitFigures(((number, 77),)))
    record = setup.view().statistics.history[0]
    part = record.vertex("write")
    assert part is not None
    assert part.subtasks[0].commit_ms == 77


def test_a_failed_attempt_is_remembered_with_its_first_cause() -> None:
    setup = Setup()
    setup.begin()
    setup.fail()
    view = setup.view()
    assert (view.failed_attempts, len(view.failures)) == (1, 1)
    failure = view.failures[0]
    assert (failure.attempt, failure.subtask, failure.trace, failure.log) == (1, WRITE, "the trace", "the log")
    assert "it broke" in failure.cause
    assert any("attempt 1 failed" in text for _, text in view.events)


def test_watchers_hear_of_starts_checkpoints_and_failures() -> None:
    setup = Setup()
    setup.begin()
    number = checkpoint(setup)
    changes = setup.notes.changes
    setup.fail()
    assert setup.notes.changes > changes
    setup.say(TasksCancelled(1))
    setup.settle(1500)
    setup.deployed()
    setup.run_tasks(2)
    assert setup.notes.heard == [
        ("claimed",),
        ("start", 1, ""),
        ("checkpoint", number, "COMPLETED"),
        ("claimed",),
        ("start", 2, ""),
    ]


def test_an_attempt_that_fails_before_it_runs_ends_its_start() -> None:
    setup = Setup()
    setup.deploy()
    setup.fail()
    (heard,) = [fact for fact in setup.notes.heard if fact[0] == "start"]
    assert heard[:2] == ("start", 1)
    assert "it broke" in str(heard[2])


# The past.


def past(**values: object) -> JobPast:
    return JobPast(replace(sample_view(), **values), {})  # type: ignore[arg-type]


def test_a_new_driver_shows_the_past() -> None:
    setup = Setup(history=100)
    setup.begin()
    earlier = past(statistics=sample_statistics(4))
    setup.master.monitor.preceded_by(earlier)
    statistics, view = setup.view().statistics, setup.view()
    assert [record.id for record in statistics.history] == [4, 3, 2, 1]
    assert statistics.counts.completed == 2
    assert view.failed_attempts == 1
    assert view.failures == earlier.view.failures
    assert [text for _, text in view.events][:2] == ["CREATED -> RUNNING", "checkpoint 1 failed"]
    assert [text for _, text in view.events][2] == "CREATED -> INITIALIZING"
    assert view.explanations[1] == earlier.view.explanations[1], "who saw the tasks knows why"
    assert view.attempt == 1


def test_what_becomes_known_of_a_failure_does_not_change_an_earlier_drivers() -> None:
    setup = Setup()
    setup.begin()
    setup.master.monitor.preceded_by(past())
    setup.master.failure_explained("the machine is gone", "", 0)
    assert setup.view().failures == past().view.failures


def test_failures_of_all_drivers_are_limited() -> None:
    setup = Setup()
    setup.begin()
    setup.fail()
    many = tuple(AttemptFailure(number, number, "old") for number in range(MAX_FAILURES))
    setup.master.monitor.preceded_by(past(failures=many, failed_attempts=500))
    view = setup.view()
    assert (len(view.failures), view.failed_attempts) == (MAX_FAILURES, 501)
    assert "it broke" in view.failures[0].cause


@pytest.mark.parametrize(("history", "shown"), [(0, 10), (5, 10), (30, 30)])
def test_as_many_checkpoints_are_shown_as_are_kept(history: int, shown: int) -> None:
    setup = Setup(history=history)
    setup.master.monitor.preceded_by(past(statistics=sample_statistics(50)))
    assert len(setup.view().statistics.history) == shown


def test_a_job_whose_storage_fails_at_its_start_is_shown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = Setup()

    def fail(*_: object, **__: object) -> None:
        raise StorageError("no storage")

    monkeypatch.setattr(setup.sim_storage, "carry_out", fail)
    setup.master.start(setup.slots)
    setup.settle(2000)
    assert setup.view().failures


def test_a_defect_in_what_people_look_at_ends_no_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    setup = Setup()
    setup.begin()
    for name in ("ended", "of"):
        monkeypatch.setattr(setup.master.monitor._explanations, name, broken)
    monkeypatch.setattr("snapline.runtime.master.job_monitor.job_health", broken)
    checkpoint(setup)
    view = setup.view()
    assert (view.status, view.explanations) == (JobStatus.RUNNING, {})
    assert "not known" in view.health.line
    assert view.statistics.counts.completed == 1
    assert [record.levelname for record in caplog.records if "this is a defect" in record.message] != []

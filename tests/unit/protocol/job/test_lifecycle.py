"""The life of a job: from submission through failures and restarts to each of its ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapline.config import ExponentialDelay, FailureRate, FixedDelay, NoRestart, RestartStrategy
from snapline.errors import IllegalTransitionError
from snapline.protocol.error_identity import ErrorIdentity
from snapline.protocol.job.lifecycle import HOLD_MARGIN_MS, LIFECYCLE, JobLifecycle
from snapline.protocol.job.lifecycle_events import (
    AttemptClaimed,
    AttemptPrepared,
    CancelRequested,
    CancelTasks,
    CheckpointSaved,
    ClaimAttempt,
    DeploymentTimedOut,
    DeployTasks,
    DriverFenced,
    EndJob,
    FailureRequested,
    JobEffect,
    JobEvent,
    JobHadEnded,
    JobSubmitted,
    PreparationFailed,
    PrepareAttempt,
    RestartDue,
    ScheduleRestart,
    StartCheckpoints,
    StopCheckpoints,
    StopFailed,
    StopSavepointCompleted,
    SuspendRequested,
    TasksStopped,
)
from snapline.protocol.job.regions import Regions
from snapline.protocol.job.restart_policy import RestartPolicy
from snapline.protocol.messages import TaskReport
from snapline.protocol.snapshot import Snapshot
from snapline.types import ExecutionId, JobStatus, SnapshotKind, SubtaskId, TaskStatus

A, B = SubtaskId("v", 0), SubtaskId("v", 1)
FOREVER = FixedDelay(attempts=1000, delay="1s")


def savepoint(attempt: int = 1) -> Snapshot:
    return Snapshot(9, SnapshotKind.SYNC_SAVEPOINT, attempt, 0, "savepoint-9", {})


class Job:
    """A lifecycle and a clock; `tell` takes facts in turn and returns all that was ordered."""

    def __init__(self, restart: RestartStrategy = FOREVER, same_error_limit: int | None = None) -> None:
        self.now_ms = 0
        self.jitter = 0.0
        self.machine = JobLifecycle(RestartPolicy.for_config(restart), same_error_limit)

    def tell(self, *events: JobEvent) -> list[JobEffect]:
        return [effect for event in events for effect in self.machine.handle(event, self.now_ms, self.jitter)]

    def status(self) -> JobStatus:
        return self.machine.status

    def report(
        self, subtask: SubtaskId, status: TaskStatus, *, error: str = "", attempt: int | None = None
    ) -> list[JobEffect]:
        attempt = self.machine.attempt if attempt is None else attempt
        return self.tell(TaskReport(ExecutionId(subtask, attempt), status, error))

    def deploy(self, attempt: int = 1, finished: frozenset[SubtaskId] = frozenset()) -> list[JobEffect]:
        return self.tell(AttemptClaimed(attempt), AttemptPrepared(frozenset({A, B}), finished))

    def run(self, attempt: int = 1) -> None:
        """Bring it to RUNNING with this attempt."""
        if self.status() is JobStatus.CREATED:
            self.tell(JobSubmitted())
        self.deploy(attempt)
        self.report(A, TaskStatus.RUNNING)
        self.report(B, TaskStatus.RUNNING)
        assert self.status() is JobStatus.RUNNING

    def fail(self, error: str = "boom") -> list[JobEffect]:
        return self.report(A, TaskStatus.FAILED, error=error)


def running() -> Job:
    job = Job()
    job.run()
    return job


# --- to RUNNING and to FINISHED --------------------------------------------------------------------------------------


def test_a_job_claims_prepares_deploys_and_starts_its_checkpoints_when_every_task_runs() -> None:
    job = Job()
    assert job.machine.attempt == 0
    assert job.tell(JobSubmitted()) == [ClaimAttempt()]
    assert job.status() is JobStatus.INITIALIZING
    assert job.tell(AttemptClaimed(1)) == [PrepareAttempt(1)]
    assert job.tell(AttemptPrepared(frozenset({B, A}))) == [DeployTasks(1, (A, B))]
    assert job.report(A, TaskStatus.RUNNING) == []
    assert job.status() is JobStatus.INITIALIZING
    assert job.report(B, TaskStatus.RUNNING) == [StartCheckpoints(1)]
    assert job.status() is JobStatus.RUNNING


def test_a_job_finishes_with_its_last_task() -> None:
    job = running()
    assert job.report(B, TaskStatus.FINISHED) == []
    assert job.report(A, TaskStatus.FINISHED) == [StopCheckpoints(1, shutdown=True), EndJob(JobStatus.FINISHED, "")]
    assert job.status() is JobStatus.FINISHED


def test_tasks_that_had_finished_before_are_not_deployed() -> None:
    job = Job()
    job.tell(JobSubmitted())
    assert job.deploy(finished=frozenset({A}))[-1] == DeployTasks(1, (B,))
    assert job.report(A, TaskStatus.RUNNING) == []
    assert job.report(B, TaskStatus.RUNNING) == [StartCheckpoints(1)]


def test_a_job_whose_tasks_had_all_finished_is_finished_at_once() -> None:
    job = Job()
    job.tell(JobSubmitted())
    assert job.deploy(finished=frozenset({A, B}))[1:] == [
        StopCheckpoints(1, shutdown=True),
        EndJob(JobStatus.FINISHED, ""),
    ]


def test_a_task_may_finish_before_others_run() -> None:
    job = Job()
    job.tell(JobSubmitted())
    job.deploy()
    job.report(A, TaskStatus.RUNNING)
    job.report(A, TaskStatus.FINISHED)
    assert job.report(B, TaskStatus.RUNNING) == [StartCheckpoints(1)]


def test_a_job_may_finish_without_ever_having_run_as_a_whole() -> None:
    job = Job()
    job.tell(JobSubmitted())
    job.deploy()
    job.report(A, TaskStatus.FINISHED)
    assert job.report(B, TaskStatus.FINISHED)[-1] == EndJob(JobStatus.FINISHED, "")


def test_a_report_that_comes_twice_does_not_bring_a_task_back() -> None:
    job = running()
    job.report(A, TaskStatus.FINISHED)
    assert job.report(A, TaskStatus.RUNNING) == []
    assert job.report(A, TaskStatus.FAILED, error="lost connection") == []
    assert job.report(B, TaskStatus.FINISHED)[-1] == EndJob(JobStatus.FINISHED, "")


def test_a_late_deploying_does_not_keep_a_job_from_running() -> None:
    job = Job()
    job.tell(JobSubmitted())
    job.deploy()
    job.report(A, TaskStatus.RUNNING)
    job.report(A, TaskStatus.DEPLOYING)
    assert job.report(B, TaskStatus.RUNNING) == [StartCheckpoints(1)]


def test_a_job_is_submitted_once() -> None:
    job = running()
    with pytest.raises(IllegalTransitionError):
        job.tell(JobSubmitted())
    assert job.status() is JobStatus.RUNNING


# --- failure and restart ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.CANCELED])
def test_a_failed_task_stops_everything_and_the_job_restarts(status: TaskStatus) -> None:
    job = running()
    assert job.report(A, status, error="boom") == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]
    assert job.status() is JobStatus.FAILING
    assert job.machine.cause == "v/0#1: boom"
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000)]
    assert job.status() is JobStatus.RESTARTING
    assert job.tell(RestartDue()) == [ClaimAttempt()]
    assert job.tell(AttemptClaimed(2)) == [PrepareAttempt(2)]
    job.tell(AttemptPrepared(frozenset({A, B})))
    job.report(A, TaskStatus.RUNNING)
    assert job.report(B, TaskStatus.RUNNING) == [StartCheckpoints(2)]


def test_a_task_that_fails_while_others_are_being_deployed_fails_the_attempt() -> None:
    job = Job()
    job.tell(JobSubmitted())
    job.deploy()
    assert job.fail() == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]


def test_the_first_cause_is_kept() -> None:
    job = Job(NoRestart())
    job.run()
    job.fail("the cause")
    assert job.report(B, TaskStatus.FAILED, error="a consequence") == []
    assert job.tell(FailureRequested(1, "another consequence")) == []
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.FAILED, "v/0#1: the cause")]


def test_the_cause_of_the_last_failure_ends_the_job() -> None:
    job = Job(FixedDelay(attempts=1, delay="0ms"))
    job.run()
    job.fail("first")
    job.tell(TasksStopped(1), RestartDue())
    job.run(2)
    job.fail("second")
    assert job.tell(TasksStopped(2)) == [EndJob(JobStatus.FAILED, "v/0#2: second")]


def test_a_failure_may_be_demanded_from_outside_the_tasks() -> None:
    job = running()
    assert job.tell(FailureRequested(1, "too many checkpoints failed")) == [
        StopCheckpoints(1, shutdown=False),
        CancelTasks(1),
    ]
    assert job.machine.cause == "too many checkpoints failed"


def test_tasks_that_do_not_come_up_in_time_are_named() -> None:
    job = Job()
    job.tell(JobSubmitted())
    job.deploy()
    job.report(A, TaskStatus.RUNNING)
    assert job.tell(DeploymentTimedOut(1)) == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]
    assert job.machine.cause == "tasks did not start in time: v/1"


def test_a_deployment_that_succeeded_cannot_time_out() -> None:
    job = running()
    assert job.tell(DeploymentTimedOut(1)) == []
    assert job.status() is JobStatus.RUNNING


@pytest.mark.parametrize("claimed", [False, True])
def test_a_failed_preparation_leads_to_another_try(claimed: bool) -> None:
    job = Job()
    job.tell(JobSubmitted())
    if claimed:
        job.tell(AttemptClaimed(1))
    assert job.tell(PreparationFailed("the store is away")) == [ScheduleRestart(1000)]
    assert job.tell(RestartDue()) == [ClaimAttempt()]


def test_a_preparation_that_can_never_succeed_ends_the_job_whatever_the_strategy() -> None:
    job = Job()
    job.tell(JobSubmitted(), AttemptClaimed(1))
    assert job.tell(PreparationFailed("the snapshot does not fit", recoverable=False)) == [
        EndJob(JobStatus.FAILED, "the snapshot does not fit")
    ]


def test_a_preparation_failure_that_comes_late_changes_nothing() -> None:
    job = running()
    assert job.tell(PreparationFailed("late")) == []


@pytest.mark.parametrize(
    ("strategy", "delays"),
    [
        (NoRestart(), []),
        (FixedDelay(attempts=2, delay="3s"), [3000, 3000]),
        (FailureRate(max_failures_per_interval=1, interval="10s", delay="2s"), [2000]),
        (ExponentialDelay(initial_backoff="1s", jitter=0.0, attempts_before_reset=3), [1000, 1500, 2250]),
    ],
)
def test_the_restart_strategy_decides_when_and_whether(strategy: RestartStrategy, delays: list[int]) -> None:
    job = Job(strategy)
    seen = []
    for attempt in range(1, 10):
        job.run(attempt)
        job.fail()
        (effect,) = job.tell(TasksStopped(attempt))
        if not isinstance(effect, ScheduleRestart):
            assert effect == EndJob(JobStatus.FAILED, f"v/0#{attempt}: boom")
            break
        seen.append(effect.delay_ms)
        job.now_ms += effect.delay_ms + 1
        job.tell(RestartDue())
    assert seen == delays
    assert job.status() is JobStatus.FAILED


@pytest.mark.parametrize(("jitter", "delay_ms"), [(-1.0, 1350), (0.0, 1500), (1.0, 1650)])
def test_chance_varies_the_delay(jitter: float, delay_ms: int) -> None:
    job = Job(ExponentialDelay(initial_backoff="1s", jitter=0.1))
    job.run()
    job.fail()
    job.tell(TasksStopped(1), RestartDue())
    job.now_ms, job.jitter = 60_000, jitter
    job.run(2)
    job.fail()
    assert job.tell(TasksStopped(2)) == [ScheduleRestart(delay_ms)]


def test_a_failure_while_the_job_fails_counts_for_no_second_attempt() -> None:
    job = Job(FixedDelay(attempts=1, delay="0ms"))
    job.run()
    job.fail()
    job.report(B, TaskStatus.FAILED)
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(0)]


# --- stale attempts --------------------------------------------------------------------------------------------------


def stale_words() -> list[JobEvent]:
    return [
        TaskReport(ExecutionId(A, 1), TaskStatus.FAILED, "late"),
        TaskReport(ExecutionId(A, 1), TaskStatus.RUNNING),
        TaskReport(ExecutionId(B, 1), TaskStatus.RUNNING),
        TaskReport(ExecutionId(A, 1), TaskStatus.FINISHED),
        TaskReport(ExecutionId(B, 1), TaskStatus.FINISHED),
        DeploymentTimedOut(1),
        FailureRequested(1, "late"),
        TasksStopped(1),
    ]


@pytest.mark.parametrize("stage", ["restarting", "claiming", "preparing", "deploying", "running"])
def test_words_of_an_older_attempt_count_for_nothing(stage: str) -> None:
    job = running()
    job.fail("the cause")
    job.tell(TasksStopped(1))
    steps: dict[str, Callable[[], object]] = {
        "claiming": lambda: job.tell(RestartDue()),
        "preparing": lambda: job.tell(AttemptClaimed(2)),
        "deploying": lambda: job.tell(AttemptPrepared(frozenset({A, B}))),
        "running": lambda: [job.report(A, TaskStatus.RUNNING), job.report(B, TaskStatus.RUNNING)],
    }
    for name, step in steps.items():
        if stage == "restarting":
            break
        step()
        if name == stage:
            break
    before = job.status()
    assert job.tell(*stale_words()) == []
    assert job.status() is before
    assert job.machine.cause == "v/0#1: the cause"


def test_an_older_attempt_that_has_stopped_says_nothing_about_the_newest() -> None:
    job = running()
    job.fail()
    job.tell(TasksStopped(1), RestartDue())
    job.run(2)
    job.fail()
    assert job.tell(TasksStopped(1)) == []
    assert job.status() is JobStatus.FAILING


def test_words_about_subtasks_the_job_does_not_have_are_ignored() -> None:
    job = running()
    assert job.report(SubtaskId("w", 0), TaskStatus.FAILED) == []
    assert job.report(SubtaskId("v", 2), TaskStatus.FAILED) == []


@pytest.mark.parametrize("event", [AttemptClaimed(7), AttemptPrepared(frozenset({A})), RestartDue()])
def test_steps_of_the_start_out_of_turn_change_nothing(event: JobEvent) -> None:
    job = running()
    assert job.tell(event) == []
    assert job.machine.attempt == 1
    assert job.status() is JobStatus.RUNNING


def test_tasks_that_stop_in_a_running_job_are_no_news() -> None:
    job = running()
    assert job.tell(TasksStopped(1)) == []


# --- cancel ----------------------------------------------------------------------------------------------------------


def test_a_job_that_was_never_submitted_is_cancelled_at_once() -> None:
    assert Job().tell(CancelRequested()) == [EndJob(JobStatus.CANCELED, "")]


@pytest.mark.parametrize("claimed", [False, True])
def test_a_job_that_is_not_deployed_is_cancelled_at_once(claimed: bool) -> None:
    job = Job()
    job.tell(JobSubmitted())
    if claimed:
        job.tell(AttemptClaimed(1))
    assert job.tell(CancelRequested()) == [EndJob(JobStatus.CANCELED, "")]
    assert job.tell(AttemptClaimed(1), AttemptPrepared(frozenset({A}))) == []


@pytest.mark.parametrize("all_run", [False, True])
def test_a_deployed_job_is_cancelled_when_its_tasks_have_stopped(all_run: bool) -> None:
    job = Job()
    if all_run:
        job.run()
    else:
        job.tell(JobSubmitted())
        job.deploy()
    assert job.tell(CancelRequested()) == [StopCheckpoints(1, shutdown=True), CancelTasks(1)]
    assert job.status() is JobStatus.CANCELLING
    assert job.tell(CancelRequested()) == []
    assert job.report(A, TaskStatus.CANCELED) == []
    assert job.fail() == []
    assert job.report(A, TaskStatus.FINISHED) + job.report(B, TaskStatus.FINISHED) == []
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.CANCELED, "")]


def test_a_failing_job_is_cancelled_instead_of_restarted() -> None:
    job = running()
    job.fail()
    assert job.tell(CancelRequested()) == [], "its tasks are being stopped already"
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.CANCELED, "v/0#1: boom")]


def test_a_job_that_waits_for_its_restart_is_cancelled_at_once() -> None:
    job = running()
    job.fail()
    job.tell(TasksStopped(1))
    assert job.tell(CancelRequested()) == [EndJob(JobStatus.CANCELED, "v/0#1: boom")]
    assert job.tell(RestartDue()) == []


# --- the same error again and again ----------------------------------------------------------------------------------

SAME = ErrorIdentity("map", "ValueError")


def raised(job: Job, error: str, identity: ErrorIdentity | None = SAME) -> list[JobEffect]:
    """The attempt fails with this error and its tasks stop. Returns what follows."""
    attempt = job.machine.attempt
    execution = ExecutionId(A, attempt)
    job.tell(TaskReport(execution, TaskStatus.FAILED, error, identity=identity))
    effects = job.tell(TasksStopped(attempt))
    if job.status() is JobStatus.RESTARTING:
        job.tell(RestartDue())
        job.run(attempt + 1)
    return effects


def test_the_same_error_ends_the_job_at_its_limit_though_the_message_varies() -> None:
    job = Job(same_error_limit=4)
    job.run()
    for number in range(1, 4):
        assert raised(job, f"bad row {number}") == [ScheduleRestart(1000)]
    (end,) = raised(job, "bad row 4")
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED
    assert end.cause.startswith("v/0#4: bad row 4 (the same error for the 4th time without a completed checkpoint")


def test_a_repetition_is_part_of_the_cause() -> None:
    job = Job(same_error_limit=4)
    job.run()
    raised(job, "bad row")
    assert job.machine.cause == "v/0#1: bad row"
    raised(job, "bad row")
    assert job.machine.cause == "v/0#2: bad row (the same error for the 2nd time)"


def test_a_completed_checkpoint_in_between_makes_it_another_error() -> None:
    job = Job(same_error_limit=2)
    job.run()
    for _ in range(5):
        assert raised(job, "bad row") == [ScheduleRestart(1000)]
        job.tell(CheckpointSaved(frozenset({0})))


@pytest.mark.parametrize("limit", [2, None])
def test_failures_of_the_environment_go_on_being_retried(limit: int | None) -> None:
    job = Job(same_error_limit=limit)
    job.run()
    for _ in range(20):
        assert raised(job, "connection reset", None) == [ScheduleRestart(1000)]


def test_without_a_limit_the_same_error_goes_on_too() -> None:
    job = Job()
    job.run()
    for _ in range(20):
        assert raised(job, "bad row") == [ScheduleRestart(1000)]


def test_a_restart_strategy_may_end_the_job_earlier() -> None:
    job = Job(FixedDelay(attempts=1, delay="1s"), same_error_limit=10)
    job.run()
    raised(job, "bad row")
    (end,) = raised(job, "bad row")
    assert isinstance(end, EndJob)
    assert end.cause.endswith("(the same error for the 2nd time)")


def test_errors_before_the_tasks_run_and_those_demanded_from_outside_count_too() -> None:
    job = Job(same_error_limit=3)
    job.tell(JobSubmitted())
    job.tell(PreparationFailed("no splits", identity=SAME), RestartDue())
    job.run()
    job.tell(FailureRequested(1, "no splits", identity=SAME), TasksStopped(1), RestartDue())
    (end,) = job.tell(AttemptClaimed(2), PreparationFailed("no splits", identity=SAME))[1:]
    assert isinstance(end, EndJob)
    assert end.status is JobStatus.FAILED


def test_a_final_error_of_a_task_ends_the_job_whatever_the_strategy() -> None:
    job = running()
    job.tell(TaskReport(ExecutionId(A, 1), TaskStatus.FAILED, "damaged", is_final=True))
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.FAILED, "v/0#1: damaged")]


def started(job: Job) -> int:
    """Restart after a failure. Returns how long the first checkpoint is held back."""
    attempt = job.machine.attempt
    job.tell(TasksStopped(attempt), RestartDue())
    job.deploy(attempt + 1)
    job.report(A, TaskStatus.RUNNING)
    (start,) = job.report(B, TaskStatus.RUNNING)
    assert isinstance(start, StartCheckpoints)
    return start.hold_ms


def test_after_an_error_of_the_code_checkpoints_wait_until_the_place_is_passed() -> None:
    job = running()
    job.now_ms = 3000
    job.tell(TaskReport(ExecutionId(A, 1), TaskStatus.FAILED, "bad row", identity=SAME))
    assert started(job) == 2 * 3000 + HOLD_MARGIN_MS
    job.now_ms += 1000
    job.fail("connection reset")
    assert started(job) == 2 * 3000 + HOLD_MARGIN_MS, "what failed in between says nothing about that place"
    job.tell(CheckpointSaved(frozenset({0})))
    job.fail("connection reset")
    assert started(job) == 0


# --- a job that had ended before -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.FINISHED, JobStatus.CANCELED])
@pytest.mark.parametrize("stop", [None, savepoint()])
def test_a_job_that_ended_under_an_earlier_driver_is_not_run_again(status: JobStatus, stop: Snapshot | None) -> None:
    job = Job()
    job.tell(JobSubmitted())
    assert job.tell(JobHadEnded(status, stop)) == [EndJob(status, "", stop)]
    assert job.status() is status
    assert job.tell(AttemptClaimed(2)) == []


def test_a_job_may_be_found_to_have_ended_when_it_is_to_restart() -> None:
    job = running()
    job.fail()
    job.tell(TasksStopped(1), RestartDue())
    assert job.tell(JobHadEnded(JobStatus.CANCELED)) == [EndJob(JobStatus.CANCELED, "v/0#1: boom")]


def test_word_of_an_end_in_a_running_job_changes_nothing() -> None:
    job = running()
    assert job.tell(JobHadEnded(JobStatus.FINISHED)) == []
    assert job.status() is JobStatus.RUNNING


# --- fenced and suspended --------------------------------------------------------------------------------------------


def at(status: JobStatus) -> Job:
    job = Job()
    if status is JobStatus.CREATED:
        return job
    job.tell(JobSubmitted())
    if status is JobStatus.INITIALIZING:
        return job
    job.run()
    if status is JobStatus.CANCELLING:
        job.tell(CancelRequested())
    if status in (JobStatus.FAILING, JobStatus.RESTARTING):
        job.fail()
    if status is JobStatus.RESTARTING:
        job.tell(TasksStopped(1))
    assert job.status() is status
    return job


LIVING = [status for status in JobStatus if status not in LIFECYCLE.final_states]


@pytest.mark.parametrize("status", LIVING)
@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (DriverFenced(5), "attempt 5 of another driver runs this job"),
        (SuspendRequested(), "its driver lets it go; started again, it goes on from its last checkpoint"),
    ],
)
def test_a_job_may_be_taken_from_a_driver_at_any_time(status: JobStatus, event: JobEvent, cause: str) -> None:
    job = at(status)
    is_deployed = status in (JobStatus.RUNNING, JobStatus.FAILING, JobStatus.CANCELLING)
    stop = [StopCheckpoints(1, shutdown=False), CancelTasks(1)] if is_deployed else []
    assert job.tell(event) == [*stop, EndJob(JobStatus.SUSPENDED, cause)]
    assert job.machine.cause == cause
    assert job.status() is JobStatus.SUSPENDED


def test_nothing_follows_from_anything_after_the_end() -> None:
    job = running()
    job.tell(DriverFenced(2))
    everything: list[JobEvent] = [
        JobSubmitted(),
        CancelRequested(),
        SuspendRequested(),
        RestartDue(),
        TasksStopped(1),
        AttemptClaimed(3),
        StopSavepointCompleted(savepoint()),
        FailureRequested(1, "late"),
    ]
    assert job.tell(*everything) == []
    assert job.fail() == []
    assert job.status() is JobStatus.SUSPENDED


# --- stop with savepoint ---------------------------------------------------------------------------------------------


def test_a_stop_has_succeeded_when_the_job_finishes_after_its_savepoint() -> None:
    job = running()
    assert job.tell(StopSavepointCompleted(savepoint())) == []
    job.report(A, TaskStatus.FINISHED)
    assert job.report(B, TaskStatus.FINISHED) == [
        StopCheckpoints(1, shutdown=True),
        EndJob(JobStatus.FINISHED, "", stop=savepoint()),
    ]


def test_a_stop_has_failed_when_the_job_fails_after_its_savepoint_and_the_job_goes_on() -> None:
    job = running()
    job.tell(StopSavepointCompleted(savepoint()))
    assert job.fail() == [
        StopFailed(savepoint(), "v/0#1: boom"),
        StopCheckpoints(1, shutdown=False),
        CancelTasks(1),
    ]
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000)]
    job.tell(RestartDue())
    job.run(2)
    job.report(A, TaskStatus.FINISHED)
    assert job.report(B, TaskStatus.FINISHED)[-1] == EndJob(JobStatus.FINISHED, "", stop=None)


@pytest.mark.parametrize("stage", ["failing", "restarting", "next attempt"])
def test_a_stop_whose_savepoint_is_heard_of_after_the_failure_has_failed(stage: str) -> None:
    job = running()
    job.fail()
    if stage != "failing":
        job.tell(TasksStopped(1))
    if stage == "next attempt":
        job.tell(RestartDue())
        job.run(2)
    assert job.tell(StopSavepointCompleted(savepoint(attempt=1))) == [StopFailed(savepoint(), "v/0#1: boom")]


# --- regions ---------------------------------------------------------------------------------------------------------

X, Y, Z = SubtaskId("x", 0), SubtaskId("y", 0), SubtaskId("z", 0)
NUMBER = {X: 0, Y: 1, Z: 2}
"""Three regions of one subtask each."""


class RegionJob(Job):
    """A job of three regions in RUNNING."""

    def __init__(self, restart: RestartStrategy = FOREVER, coupled: str = "") -> None:
        super().__init__(restart)
        regions = Regions({"x": 1, "y": 1, "z": 1}, coupled=coupled)
        self.machine = JobLifecycle(RestartPolicy.for_config(restart), None, regions)
        self.tell(JobSubmitted(), AttemptClaimed(1), AttemptPrepared(frozenset(NUMBER)))
        self.start(X, Y, Z)

    def start(self, *subtasks: SubtaskId) -> list[JobEffect]:
        return [effect for subtask in subtasks for effect in self.report(subtask, TaskStatus.RUNNING)]

    def lose(self, subtask: SubtaskId, attempt: int = 1) -> list[JobEffect]:
        return self.report(subtask, TaskStatus.FAILED, error="boom", attempt=attempt)

    def restart(self, attempt: int, *subtasks: SubtaskId) -> None:
        self.tell(TasksStopped(self.machine.attempt), RestartDue(), AttemptClaimed(attempt))
        self.tell(AttemptPrepared(frozenset(subtasks)))


def only(*subtasks: SubtaskId) -> frozenset[int]:
    return frozenset(NUMBER[subtask] for subtask in subtasks)


def stopping(attempt: int, *subtasks: SubtaskId) -> list[JobEffect]:
    return [
        StopCheckpoints(attempt, shutdown=False, regions=only(*subtasks)),
        CancelTasks(attempt, only(*subtasks)),
    ]


def test_only_the_region_that_failed_restarts() -> None:
    job = RegionJob()
    assert job.status() is JobStatus.RUNNING
    assert job.lose(Y) == stopping(1, Y)
    assert job.status() is JobStatus.FAILING
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000, only(Y))]
    assert job.tell(RestartDue()) == [ClaimAttempt()]
    assert job.tell(AttemptClaimed(2)) == [PrepareAttempt(2, only(Y))]
    assert job.tell(AttemptPrepared(frozenset({Y}))) == [DeployTasks(2, (Y,))]
    assert job.report(Y, TaskStatus.RUNNING, attempt=1) == [], "the old execution"
    assert job.report(Y, TaskStatus.RUNNING, attempt=2) == [StartCheckpoints(2)]
    assert job.lose(X, 1) == stopping(2, X), "it still runs in the first attempt"


def test_reports_of_the_old_execution_change_nothing() -> None:
    job = RegionJob()
    job.lose(Y)
    assert job.lose(Y) == []
    job.restart(2, Y)
    assert job.lose(Y, 1) == []
    assert job.report(Y, TaskStatus.FINISHED, attempt=1) == []
    assert job.status() is JobStatus.INITIALIZING


def test_a_region_that_fails_while_another_is_stopped_goes_down_after_it() -> None:
    job = RegionJob()
    job.lose(Y)
    assert job.lose(X) == []
    assert job.tell(TasksStopped(1)) == stopping(1, X)
    assert job.status() is JobStatus.FAILING
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000, only(X, Y))]


def test_a_region_that_fails_while_another_waits_for_its_restart_joins_it() -> None:
    job = RegionJob()
    job.lose(Y)
    job.tell(TasksStopped(1))
    assert job.lose(X) == stopping(1, X)
    assert job.status() is JobStatus.FAILING
    assert job.tell(RestartDue()) == [], "the time of the first restart"
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000, only(X, Y))]
    job.tell(RestartDue(), AttemptClaimed(2))
    assert job.tell(AttemptPrepared(frozenset({X, Y}))) == [DeployTasks(2, (X, Y))]


def test_a_region_that_fails_during_a_claim_waits_until_the_attempt_is_prepared() -> None:
    job = RegionJob()
    job.lose(Y)
    job.tell(TasksStopped(1), RestartDue())
    assert job.lose(X) == []
    assert job.tell(AttemptClaimed(2)) == [PrepareAttempt(2, only(Y))]
    assert job.tell(AttemptPrepared(frozenset({Y}))) == stopping(2, X)
    assert job.tell(TasksStopped(2)) == [ScheduleRestart(1000, only(X, Y))]
    assert job.tell(RestartDue(), AttemptClaimed(3)) == [ClaimAttempt(), PrepareAttempt(3, only(X, Y))]


def test_a_preparation_that_fails_leaves_the_others_alone_and_takes_what_failed_meanwhile() -> None:
    job = RegionJob()
    job.lose(Y)
    job.tell(TasksStopped(1), RestartDue())
    assert job.tell(PreparationFailed("no store")) == [ScheduleRestart(1000, only(Y))]
    job.tell(RestartDue())
    job.lose(X)
    assert job.tell(PreparationFailed("no store")) == stopping(1, X)


def test_a_region_that_fails_while_another_starts_takes_it_down_again() -> None:
    job = RegionJob()
    job.lose(Y)
    job.restart(2, Y)
    assert job.lose(X) == stopping(2, X, Y)


def test_tasks_that_are_late_fail_their_regions() -> None:
    job = RegionJob()
    job.lose(Y)
    job.restart(2, Y)
    assert job.tell(DeploymentTimedOut(2)) == stopping(2, Y)


def test_a_failure_of_the_whole_job_stops_what_still_runs() -> None:
    job = RegionJob()
    assert job.tell(FailureRequested(1, "no slots")) == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]
    job = RegionJob()
    job.lose(Y)
    job.tell(TasksStopped(1))
    assert job.tell(FailureRequested(1, "no slots")) == stopping(1, X, Z)
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000)], "all of them"


def test_regions_that_are_down_already_do_not_fail_again() -> None:
    job = RegionJob()
    job.lose(Y)
    assert job.tell(FailureRequested(1, "its slot is lost", regions=only(Y))) == []
    assert job.tell(TasksStopped(1)) == [ScheduleRestart(1000, only(Y))]


def test_without_a_restart_everything_stops() -> None:
    job = RegionJob(NoRestart())
    assert job.lose(Y) == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]
    assert job.tell(TasksStopped(1))[0] == EndJob(JobStatus.FAILED, "y/0#1: boom")


def test_a_failure_that_no_restart_heals_is_not_forgotten_while_another_region_restarts() -> None:
    job = RegionJob()
    job.lose(Y)
    job.tell(FailureRequested(1, "broken for good", recoverable=False, regions=only(X)))
    assert job.tell(TasksStopped(1)) == stopping(1, X, Z)
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.FAILED, "broken for good")]


def test_coupled_regions_and_a_job_that_is_being_stopped_restart_as_a_whole() -> None:
    whole = [StopCheckpoints(1, shutdown=False), CancelTasks(1)]
    assert RegionJob(coupled="hooks").lose(Y) == whole
    job = RegionJob()
    job.machine.is_stopping = True
    assert job.lose(Y) == whole
    job = RegionJob()
    job.tell(StopSavepointCompleted(savepoint()))
    assert job.lose(Y)[1:] == whole


def test_a_region_that_has_finished_stays_so() -> None:
    job = RegionJob()
    job.report(X, TaskStatus.FINISHED)
    assert job.machine.unfinished(only(X, Y)) == only(Y)
    job.lose(Y)
    assert job.machine.unfinished(only(X, Y)) == only(Y)
    assert job.report(Z, TaskStatus.FINISHED) == [], "the job has not finished: a region is down"
    job.restart(2, Y)
    assert job.start(Y) == [StartCheckpoints(2)]
    ended = job.report(Y, TaskStatus.FINISHED)
    assert ended == [StopCheckpoints(2, shutdown=True), EndJob(JobStatus.FINISHED, "")]


def test_a_job_whose_last_region_turns_out_to_have_finished_ends() -> None:
    job = RegionJob()
    job.report(X, TaskStatus.FINISHED)
    job.report(Z, TaskStatus.FINISHED)
    job.lose(Y)
    job.tell(TasksStopped(1), RestartDue(), AttemptClaimed(2))
    job.tell(AttemptPrepared(frozenset({Y}), finished=frozenset({Y})))
    assert job.status() is JobStatus.FINISHED


@pytest.mark.parametrize("stopped", [False, True])
def test_a_cancel_stops_the_regions_that_go_on(stopped: bool) -> None:
    job = RegionJob()
    job.lose(Y)
    if stopped:
        job.tell(TasksStopped(1))
    assert job.tell(CancelRequested()) == [StopCheckpoints(1, shutdown=True), CancelTasks(1)]
    assert job.tell(TasksStopped(1)) == [EndJob(JobStatus.CANCELED, "y/0#1: boom")]


def test_a_fenced_driver_stops_the_regions_that_go_on() -> None:
    job = RegionJob()
    job.lose(Y)
    job.tell(TasksStopped(1), RestartDue())
    assert job.tell(DriverFenced(5))[:2] == [StopCheckpoints(1, shutdown=False), CancelTasks(1)]

"""Recording the end of a job, before anybody hears of it."""

from __future__ import annotations

import pytest
from tests.unit.runtime.master.master_kit import MasterBench

from snapline.devtools.kit.stored_snapshots import store_objects
from snapline.devtools.simulator.scenario import Fault
from snapline.devtools.simulator.sim_storage import SimJournal, SimObjects
from snapline.protocol.job.first_failure import FirstFailure
from snapline.runtime.master.job_end import RECORD_PAUSES_S, RECORD_TIMEOUT_S, EndRecorder
from snapline.runtime.master.job_storage import open_storage
from snapline.types import JobStatus


class Setup(MasterBench):
    def __init__(self) -> None:
        super().__init__()
        self.failure = FirstFailure()
        self.told: list[JobStatus] = []  # type: ignore[assignment]
        self.recorder = EndRecorder(
            self.spec, self.storage, self.cleaner, self.scheduler, self.calls.journal, self.generations, self.failure
        )
        self.attempt = self.blocking(lambda: self.storage.archive.claim(0))[0].attempt

    def record(self, status: JobStatus, until: bool = True) -> None:
        done: list[JobStatus] = []
        self.recorder.record(self.attempt, status, None, done.append)
        assert done == [], "nobody hears of it before it is recorded"
        self.run(lambda: bool(done))
        self.told = done

    @property
    def recorded(self) -> JobStatus | None:
        return self.blocking(self.storage.archive.read_journal).ended


def test_an_end_is_recorded_and_then_told() -> None:
    setup = Setup()
    setup.record(JobStatus.FINISHED)
    assert (setup.told, setup.recorded) == ([JobStatus.FINISHED], JobStatus.FINISHED)
    assert setup.failure.failure is None


def test_a_job_that_lost_its_application_is_left_to_another_driver() -> None:
    setup = Setup()
    setup.provider.gone = "the application was stopped"
    setup.record(JobStatus.FAILED)
    assert (setup.told, setup.recorded) == ([JobStatus.FAILED], None)
    assert setup.failure.failure is not None
    assert setup.failure.failure.cause == "the application was stopped"


def test_a_failed_job_whose_application_is_there_is_recorded_as_failed() -> None:
    setup = Setup()
    setup.record(JobStatus.FAILED)
    assert (setup.told, setup.recorded) == ([JobStatus.FAILED], JobStatus.FAILED)


def test_a_driver_that_was_fenced_ends_nothing() -> None:
    setup = Setup()

    def take_over() -> None:
        objects, journal = SimObjects(setup.sim_storage), SimJournal(setup.sim_storage, "job")
        open_storage(setup.spec, objects, journal, token="another").archive.claim(0)

    setup.blocking(take_over)
    setup.record(JobStatus.FINISHED)
    assert (setup.told, setup.recorded) == ([JobStatus.SUSPENDED], None)
    assert setup.failure.failure is not None


def test_storage_that_does_not_answer_is_tried_again_and_then_the_job_is_left_as_it_is() -> None:
    setup = Setup()
    setup.sim_storage._faults = frozenset({Fault.STORAGE_FAILS})
    setup.sim_storage._fails = lambda metadata, share: True  # type: ignore[method-assign]
    begun_s = setup.scheduler.time_s()
    setup.record(JobStatus.FINISHED)
    assert setup.told == [JobStatus.SUSPENDED]
    assert setup.scheduler.time_s() - begun_s >= sum(RECORD_PAUSES_S)
    assert setup.failure.failure is not None
    assert "could not be recorded" in setup.failure.failure.cause


@pytest.mark.parametrize("status", [JobStatus.CANCELED, JobStatus.FINISHED, JobStatus.FAILED])
def test_storage_that_hangs_for_ever_does_not_hold_up_the_end(status: JobStatus) -> None:
    setup = Setup()
    hang(setup)
    begun_s = setup.scheduler.time_s()
    setup.record(status)
    assert setup.told == [JobStatus.SUSPENDED]
    assert setup.scheduler.time_s() - begun_s >= RECORD_TIMEOUT_S
    assert setup.failure.failure is not None
    assert f"({status.value}) could not be recorded within 60 s" in setup.failure.failure.cause


def test_a_deletion_that_hangs_does_not_hold_up_the_end() -> None:
    setup = Setup()
    setup.cleaner.submit("it", setup.kernel.pause, lambda _: None)
    setup.record(JobStatus.CANCELED)
    assert setup.told == [JobStatus.SUSPENDED]


def test_a_job_whose_storage_was_deleted_ends_without_a_record() -> None:
    setup = Setup()
    setup.sim_storage.records["job"].clear()
    setup.record(JobStatus.CANCELED)
    assert (setup.told, setup.sim_storage.records["job"]) == ([JobStatus.CANCELED], {})
    assert setup.failure.failure is not None
    assert "is not recorded" in setup.failure.failure.cause


def test_a_driver_that_finds_the_job_cancelled_keeps_as_many_checkpoints_as_the_settings_say() -> None:
    setup = Setup()
    archive, objects = setup.storage.archive, SimObjects(setup.sim_storage)

    def leave_two() -> None:
        for checkpoint_id in (1, 2):
            assert archive.reserve_id(setup.attempt, f"request {checkpoint_id}") == checkpoint_id
            snapshot = store_objects(objects, archive, setup.attempt, checkpoint_id)
            archive.write_metadata(snapshot)
            archive.publish(snapshot)
        archive.close(setup.attempt, JobStatus.CANCELED)

    setup.blocking(leave_two)
    setup.attempt = 0
    setup.record(JobStatus.CANCELED)
    assert setup.spec.checkpoints.retained == 1
    assert {path.split("/")[-2] for path in setup.sim_storage.objects} == {"chk-2"}


def hang(setup: Setup) -> None:
    """From now on no call to storage returns."""

    def never(*_: object, **__: object) -> None:
        setup.kernel.pause()

    setup.sim_storage.carry_out = never  # type: ignore[method-assign, assignment]

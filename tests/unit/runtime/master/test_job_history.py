"""The history of a job beside its checkpoints: when it is read and written, and that it costs the job nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.runtime.master.master_kit import CHECKPOINTS, MasterBench, make_spec

from snapline.config import Monitoring
from snapline.devtools.kit.sample_views import sample_view
from snapline.devtools.simulator.sim_storage import SimObjects, SimStorage
from snapline.errors import StorageError
from snapline.protocol.messages import TriggerCheckpoint
from snapline.protocol.statistics.job_past import JobPast
from snapline.protocol.statistics.job_view import JobView
from snapline.runtime.master.job_history import JobHistory, end_text, keep_history
from snapline.storage.history_format import decode, encode
from snapline.types import JobStatus

DIRECTORY = "memory://sim/checkpoints/job/monitor"
OWN = f"{DIRECTORY}/history-1-t.json.gz"


class Setup(MasterBench):
    """A master that keeps a history. `fails` makes the calls for it fail."""

    def __init__(self, fill: Callable[[SimStorage], None] | None = None, **monitoring: Any) -> None:
        spec = make_spec(checkpoints=CHECKPOINTS)
        super().__init__(replace(spec, monitoring=Monitoring(enabled=False, **monitoring)), fill)
        self.fails = ""
        self.ended_ms: int | None = None
        history = keep_history(
            self.spec,
            replace(self.storage, objects=FailingObjects(self)),
            self.scheduler,
            self.master.monitor,
            self.view,
        )
        assert history is not None
        self.history: JobHistory = history

    def view(self) -> JobView:
        master = self.master
        return master.monitor.view(master.status, master.attempt, master.repeats, None, "http://here")

    def stored(self, path: str = OWN) -> JobView:
        return decode(self.sim_storage.objects[path], path).view

    def files(self) -> list[str]:
        return sorted(path for path in self.sim_storage.objects if path.startswith(DIRECTORY))

    def complete_checkpoint(self) -> None:
        self.request(f"r{self.scheduler.now_ms()}")
        self.acknowledge(self.told(TriggerCheckpoint)[0].barrier.id)

    def pass_time(self, seconds: int) -> None:
        """Let time go by, in which peers are heard."""
        for _ in range(seconds * 2):
            self.settle(500)


class FailingObjects(SimObjects):
    def __init__(self, setup: Setup) -> None:
        super().__init__(setup.sim_storage)
        self._setup = setup
        self.writes = 0

    def _check(self, path: str) -> None:
        if self._setup.fails and path.startswith(DIRECTORY):
            raise StorageError(self._setup.fails)

    def write(self, path: str, data: Any) -> None:
        self._check(path)
        self.writes += 1
        super().write(path, data)

    def list(self, directory: str) -> Any:
        self._check(directory)
        return super().list(directory)


def earlier(name: str = "history-1-old.json.gz", **values: Any) -> Callable[[SimStorage], None]:
    """A driver was there before."""

    def fill(storage: SimStorage) -> None:
        view = replace(sample_view("job", checkpoints=4), **values)
        storage.objects[f"{DIRECTORY}/{name}"] = encode(JobPast(view, {}))

    return fill


def test_the_first_news_are_written_soon_and_more_every_ten_seconds() -> None:
    setup = Setup()
    setup.begin()
    setup.pass_time(2)
    assert setup.files() == [OWN]
    assert setup.stored().status is JobStatus.RUNNING
    setup.complete_checkpoint()
    setup.pass_time(2)
    assert setup.stored().statistics.counts.completed == 0, "not yet"
    setup.pass_time(8)
    assert setup.stored().statistics.counts.completed == 1
    assert (setup.stored().is_live, setup.stored().url) == (False, "")
    setup.pass_time(20)
    before = setup.sim_storage.objects[OWN]
    setup.pass_time(30)
    assert setup.sim_storage.objects[OWN] is before, "nothing has changed"
    setup.complete_checkpoint()
    setup.pass_time(2)
    assert setup.stored().statistics.counts.completed == 2, "after a quiet time, at once"


def test_changes_that_never_stop_do_not_put_it_off() -> None:
    setup = Setup()
    setup.begin()
    for _ in range(40):
        setup.settle(300)
        setup.master.monitor.status_changed(JobStatus.RUNNING)
        setup.events.add("again")
    assert len(setup.stored().events) > 10


def test_what_earlier_drivers_saw_is_shown_and_taken_over() -> None:
    setup = Setup(earlier())
    setup.begin()
    setup.pass_time(3)
    counts = setup.view().statistics.counts
    assert (counts.completed, counts.failed, counts.in_progress) == (2, 2, 0), "what was in progress is lost"
    assert setup.view().failed_attempts == 1
    assert setup.files() == [OWN]
    assert decode(setup.sim_storage.objects[OWN], OWN).absorbed == ("history-1-old.json.gz",)
    assert setup.stored().statistics.counts == counts


@pytest.mark.parametrize("damage", [b"?", b""])
def test_a_damaged_history_is_a_warning(damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    def fill(storage: SimStorage) -> None:
        storage.objects[f"{DIRECTORY}/history-1-old.json.gz"] = damage

    setup = Setup(fill)
    setup.begin()
    setup.pass_time(3)
    assert ["damaged" in record.getMessage() for record in caplog.records] == [True]
    assert setup.status() is JobStatus.RUNNING
    assert setup.files() == [OWN]


def test_a_history_of_a_later_version_stays(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with monkeypatch.context() as later:
        later.setattr("snapline.storage.history_format.FORMAT_VERSION", 9)
        fill = earlier()
        storage = SimStorage.__new__(SimStorage)
        storage.objects = {}
        fill(storage)
    setup = Setup(lambda into: into.objects.update(storage.objects))
    setup.begin()
    setup.pass_time(3)
    assert ["format 9" in record.getMessage() for record in caplog.records] == [True]
    assert setup.files() == [f"{DIRECTORY}/history-1-old.json.gz", OWN]


def test_storage_that_fails_is_said_at_growing_intervals_and_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.begin()
    setup.pass_time(2)
    setup.fails = "disk full"
    setup.complete_checkpoint()
    setup.pass_time(300)
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["job job: its history cannot be written (1 times in a row): disk full; the job goes on"]
    assert setup.status() is JobStatus.RUNNING
    setup.fails = ""
    setup.pass_time(600)
    assert setup.stored().statistics.counts.completed == 1


def test_a_history_that_cannot_be_read_is_read_later(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup(earlier())
    setup.fails = "no answer"
    setup.begin()
    setup.complete_checkpoint()
    setup.pass_time(5)
    assert "what earlier drivers saw of it cannot be read" in caplog.text
    assert setup.view().statistics.counts.completed == 1
    setup.fails = ""
    setup.pass_time(15)
    assert setup.view().statistics.counts.completed == 3
    assert setup.files() == [OWN]


def test_somebody_who_takes_over_is_not_overwritten(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.begin()
    setup.pass_time(2)
    del setup.sim_storage.objects[OWN]  # the next driver has absorbed it, or somebody has deleted the job
    setup.complete_checkpoint()
    setup.pass_time(30)
    assert setup.files() == []
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"job job: its history is kept no longer: {OWN} was deleted, or another driver has taken over"
    ]
    setup.run(setup.history.close(JobStatus.SUSPENDED).done)
    assert setup.files() == []


def test_the_end_is_written_at_once() -> None:
    setup = Setup()
    setup.begin()
    setup.pass_time(2)
    setup.complete_checkpoint()
    setup.run(setup.history.close(JobStatus.FINISHED).done)
    stored = setup.stored()
    assert (stored.status, stored.statistics.counts.completed) == (JobStatus.FINISHED, 1)
    assert stored.ended_ms is not None
    assert stored.events[-1] == (stored.ended_ms, end_text(JobStatus.FINISHED))
    assert stored.status_times[JobStatus.FINISHED] == stored.ended_ms
    before = setup.sim_storage.objects[OWN]
    setup.history.changed()
    setup.pass_time(30)
    assert setup.sim_storage.objects[OWN] is before


def test_the_end_comes_while_it_reads_or_writes() -> None:
    setup = Setup(earlier())
    setup.master.start(setup.slots)
    setup.run(lambda: setup.history._is_busy)
    setup.run(setup.history.close(JobStatus.CANCELED).done)
    setup.run(lambda: not setup.history._is_busy)
    assert setup.stored().status is JobStatus.CANCELED
    assert setup.stored().statistics.counts.completed == 2


def test_the_end_comes_before_anything_was_claimed() -> None:
    setup = Setup(earlier())
    before = dict(setup.sim_storage.objects)
    setup.run(setup.history.close(JobStatus.SUSPENDED).done)
    assert setup.sim_storage.objects == before, "whoever has not claimed the job leaves everything alone"


def test_a_failing_storage_does_not_hold_up_the_end() -> None:
    setup = Setup()
    setup.begin()
    setup.pass_time(2)
    setup.fails = "gone"
    setup.run(setup.history.close(JobStatus.FINISHED).done)


def test_if_the_past_could_not_be_read_it_stays_beside_the_rest() -> None:
    setup = Setup(earlier())
    setup.fails = "no answer"
    setup.begin()
    setup.complete_checkpoint()
    setup.pass_time(2)
    setup.fails = ""
    setup.run(setup.history.close(JobStatus.SUSPENDED).done)
    assert setup.files() == [f"{DIRECTORY}/history-1-old.json.gz", OWN]
    assert setup.stored().statistics.counts.completed == 1


def test_nothing_is_kept_without_storage_or_if_nobody_wants_it() -> None:
    bench = MasterBench()

    def look() -> JobView:
        raise AssertionError("nobody looks")

    def kept(**settings: Any) -> JobHistory | None:
        spec = replace(bench.spec, **settings)
        return keep_history(spec, bench.storage, bench.scheduler, bench.master.monitor, look)

    assert kept(monitoring=Monitoring(history=0)) is None
    assert kept(monitoring=Monitoring(), checkpoints=make_spec().checkpoints) is None
    assert bench.master.monitor.watchers == []
    assert kept(monitoring=Monitoring(enabled=False)) is not None

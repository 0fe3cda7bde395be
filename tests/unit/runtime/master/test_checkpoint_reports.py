"""The log and the events say how checkpoints fare."""

from __future__ import annotations

import logging

import pytest

from snapline.protocol.snapshot import Snapshot
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.runtime.master.checkpoint_reports import MAX_FAILURE_EVENTS, CheckpointReports
from snapline.runtime.master.job_log import EventLog
from snapline.types import FailureReason, SnapshotKind

EXPIRED = FailureReason.CHECKPOINT_EXPIRED


class Setup:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = EventLog(lambda: round(self.now_s * 1000))
        self.ended: list[int] = []
        self.under_way: Explanation | None = None
        self.reports = CheckpointReports("clicks", self.events, lambda: self.now_s, self)

    def checkpoint_ended(self, checkpoint_id: int) -> Explanation | None:
        self.ended.append(checkpoint_id)
        return Explanation(checkpoint_id, SlowCause.HUNG_OPERATOR, "`calls` hangs", "mend it", "calls", 0)

    def checkpoint_under_way(self) -> Explanation | None:
        return self.under_way

    def texts(self) -> list[str]:
        return [text for _, text in self.events.all()]


def snapshot(kind: SnapshotKind = SnapshotKind.CHECKPOINT) -> Snapshot:
    return Snapshot(4, kind, 1, 0, "chk-4", {})


def test_a_failure_is_an_event_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.reports.failed(3, EXPIRED, "too slow")
    (text,) = setup.texts()
    assert text.startswith("checkpoint 3 failed (CHECKPOINT_EXPIRED): `calls` hangs")
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "snapline.runtime.master.checkpoint_reports")
    assert record.getMessage() == f"job clicks: {text}"


def test_each_failure_is_an_event_but_few_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    for number in range(20):
        setup.now_s = number * 0.4
        setup.reports.failed(None, FailureReason.IO_EXCEPTION, "disk full")
    assert len(setup.texts()) == 20
    assert setup.texts()[7] == "a checkpoint could not start (IO_EXCEPTION): disk full"
    assert len(caplog.records) == 1


def test_failures_without_end_do_not_push_out_all_other_events() -> None:
    setup = Setup()
    for _ in range(10 * MAX_FAILURE_EVENTS):
        setup.reports.failed(1, EXPIRED, "too slow")
    assert len(setup.texts()) == MAX_FAILURE_EVENTS


def test_routine_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.reports.failed(1, FailureReason.CHECKPOINT_COORDINATOR_SUSPEND, "the job left the running state")
    assert (setup.texts(), caplog.records) == ([], [])


def test_success_after_failures_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.reports.failed(1, EXPIRED, "too slow")
    setup.reports.completed(snapshot(SnapshotKind.SAVEPOINT))
    assert setup.texts()[1:] == ["savepoint 4 complete"], "a savepoint is not what the job recovers from"
    setup.reports.completed(snapshot())
    assert setup.texts()[2:] == ["checkpoint 4 complete", "checkpoints complete again, after 1 failed"]
    assert len(caplog.records) == 2


def test_checkpoints_that_stay_away_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.reports.running()
    setup.reports.look(1000)
    setup.now_s = 6.0
    setup.reports.look(1000)
    (text,) = setup.texts()
    assert text.startswith("no checkpoint has completed for 6 s")
    assert text.endswith("the last completed one")
    assert len(caplog.records) == 1
    setup.reports.left()
    setup.now_s = 600.0
    setup.reports.look(1000)
    assert len(caplog.records) == 1


def test_the_log_and_the_events_name_who_is_to_blame_for_one_that_expired(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.reports.failed(3, EXPIRED, "too slow")
    setup.reports.failed(None, FailureReason.IO_EXCEPTION, "disk full")
    setup.reports.completed(snapshot())
    assert setup.ended == [3, 4], "one that could not start has no explanation"
    assert "`calls` hangs; mend it. The job goes on" in setup.texts()[0]
    assert "`calls` hangs" in caplog.messages[0]


def test_a_warning_that_none_completes_says_what_the_one_under_way_waits_for() -> None:
    setup = Setup()
    setup.under_way = Explanation(8, SlowCause.BACK_PRESSURE, "`sink` is slow", "make it faster", "sink", 0)
    setup.reports.running()
    setup.now_s = 6.0
    setup.reports.look(1000)
    (text,) = setup.texts()
    assert text.endswith("the last completed one. Checkpoint 8: `sink` is slow; make it faster")

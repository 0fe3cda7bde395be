"""One subtask commits, once a checkpoint, what all writers of a sink have prepared; the commits may be the driver's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
import pytest

import snapline as sl
from snapline.contracts.operator_coordinator import CoordinatorContext
from snapline.errors import UserCodeError
from snapline.operators.global_commit import DriverCommits, GlobalCommit
from snapline.operators.sink_operator import PREPARED_SCHEMA, SinkOperator

Run = Callable[..., Any]
R = sl.CommitResult


class Writer(sl.SinkWriter):
    def __init__(self) -> None:
        self.rows: list[int] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.column(0).to_pylist()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        rows, self.rows = self.rows, []
        return rows


class Committer(sl.GlobalCommitter):
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.answers: list[Any] = []

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult | sl.RetryWith:
        self.log.append((committable.checkpoint_id, committable.payload, permit.checkpoint_id))
        answer = self.answers.pop(0) if self.answers else R.COMMITTED
        if isinstance(answer, Exception):
            raise answer
        result: sl.CommitResult | sl.RetryWith = answer
        return result

    def abort_newer(self, checkpoint_id: int) -> None:
        self.log.append(("abort newer", checkpoint_id))

    def close(self) -> None:
        self.log.append("close")


class Table(sl.Sink):
    def __init__(self, scope: sl.CommitScope) -> None:
        self.commit_scope = scope
        self.made = Committer()
        self.contexts: list[sl.SinkContext] = []

    def writer(self, context: sl.SinkContext) -> sl.SinkWriter:
        return Writer()

    def global_committer(self, context: sl.SinkContext) -> sl.GlobalCommitter:
        self.contexts.append(context)
        return self.made


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": list(values)})


def prepared(run: Run, sink: sl.Sink, subtask: int, *values: int) -> pa.RecordBatch:
    """What a writer sends ahead of a barrier."""
    harness = run(SinkOperator(sink), subtask=subtask)
    operator = harness.open()
    operator.process(numbers(*values), 0)
    operator.prepare_snapshot(1)
    assert not operator.has_unfinished_work, "nothing is the writer's to commit"
    (batch,) = harness.emitted
    assert batch.schema == PREPARED_SCHEMA
    return batch


def test_everything_of_a_checkpoint_is_one_commit_by_subtask(run: Run) -> None:
    sink = Table(sl.CommitScope.JOB)
    harness = run(GlobalCommit(sink, "out"), uid="out.commit", attempt=3)
    operator = harness.open()
    assert sink.contexts == [sl.SinkContext("job", "out", 0, 1, 3, "job")]
    operator.process(prepared(run, sink, 1, 30, 40), 0)
    operator.process(prepared(run, sink, 0, 10, 20), 0)
    operator.prepare_snapshot(1)
    operator.snapshot(1)
    assert operator.has_unfinished_work
    operator.prepare_snapshot(2)
    operator.checkpoint_completed(2)
    assert sink.made.log == [("abort newer", -1), (1, [10, 20, 30, 40], 2)]
    assert not operator.has_unfinished_work
    operator.close()
    assert sink.made.log[-1] == "close"


def test_an_aborted_checkpoint_is_committed_by_itself_ahead_of_the_next(run: Run) -> None:
    sink = Table(sl.CommitScope.JOB)
    operator = run(GlobalCommit(sink, "out")).open()
    for number in (1, 2):
        operator.process(prepared(run, sink, 0, number), 0)
        operator.prepare_snapshot(number)
    operator.checkpoint_aborted(1)
    operator.checkpoint_completed(2)
    assert sink.made.log[1:] == [(1, [1], 2), (2, [2], 2)]


def test_without_checkpoints_the_end_of_the_input_commits(run: Run) -> None:
    sink = Table(sl.CommitScope.JOB)
    writer = run(SinkOperator(sink), takes_last_checkpoint=False)
    writer.open().process(numbers(5), 0)
    writer.operator.finish()
    operator = run(GlobalCommit(sink, "out"), takes_last_checkpoint=False).open()
    operator.process(writer.emitted[0], 0)
    operator.finish()
    assert sink.made.log[1:] == [(1, [5], 1)]


def test_a_writer_sends_what_is_left_before_the_end_of_its_data(run: Run) -> None:
    writer = run(SinkOperator(Table(sl.CommitScope.JOB)), restored_id=6)
    operator = writer.open()
    operator.process(numbers(5), 0)
    operator.finish()
    operator.prepare_snapshot(7)
    assert [batch.num_rows for batch in writer.emitted] == [1]


# On the driver.


class Driver:
    """Carries events between the operator and its coordinator, as the runtime does."""

    def __init__(self, run: Run, sink: Table) -> None:
        self.harness = run(GlobalCommit(sink, "out"), uid="out.commit")
        coordinator = self.harness.operator.make_coordinator()
        assert isinstance(coordinator, DriverCommits)
        self.coordinator = coordinator
        coordinator.start(
            CoordinatorContext(
                job_id="job",
                uid="out.commit",
                parallelism=1,
                attempt=4,
                lineage="job.1",
                restored_id=-1,
                is_restored=False,
                clock=lambda: 0,
                send=lambda subtask, event: self.answers.append((subtask, event)),
                background=_at_once,
                call_later=lambda delay_ms, call: call(),
                post=lambda call: call(),
                report_backlog=lambda has_backlog: None,
            )
        )
        self.answers: list[tuple[int, Any]] = []
        self.operator = self.harness.open()

    def carry(self) -> None:
        events, self.harness.events[:] = list(self.harness.events), []
        for event in events:
            self.coordinator.handle_event(0, event)
        answers, self.answers = self.answers, []
        for _, answer in answers:
            self.operator.handle_event(answer)

    def commit(self, run: Run, sink: Table) -> None:
        self.operator.process(prepared(run, sink, 0, 1), 0)
        self.operator.prepare_snapshot(1)
        self.operator.checkpoint_completed(1)
        assert self.operator.has_unfinished_work, "until the driver has answered"


def _at_once(call: Callable[[], Any], done: Callable[[Future[Any]], None]) -> None:
    future: Future[Any] = Future()
    try:
        future.set_result(call())
    except Exception as error:
        future.set_exception(error)
    done(future)


def test_the_driver_commits(run: Run) -> None:
    sink = Table(sl.CommitScope.DRIVER)
    driver = Driver(run, sink)
    assert sink.contexts == [sl.SinkContext("job", "out", 0, 1, 4, "job.1")], "made once, on the driver"
    driver.commit(run, sink)
    driver.carry()
    assert sink.made.log == [("abort newer", -1), (1, [1], 1)]
    assert not driver.operator.has_unfinished_work
    driver.operator.handle_event({"result": "COMMITTED"})
    assert driver.coordinator.snapshot(1) is None, "the operator keeps what is to be committed"
    driver.coordinator.close()
    assert sink.made.log[-1] == "close"


def test_the_driver_is_asked_again_with_another_payload(run: Run) -> None:
    sink = Table(sl.CommitScope.DRIVER)
    driver = Driver(run, sink)
    sink.made.answers = [sl.RetryWith("better"), R.RETRY_LATER]
    driver.commit(run, sink)
    for _ in range(3):
        driver.carry()
        while not driver.harness.mail.empty():
            driver.harness.read_mail()
    assert [entry[1] for entry in sink.made.log[1:]] == [[1], "better", "better"]
    assert not driver.operator.has_unfinished_work


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (ValueError("no luck"), "sink 'out' could not commit: ValueError: no luck"),
        (UserCodeError("no table"), "no table"),
        (True, "it must give a CommitResult"),
    ],
)
def test_an_error_on_the_driver_fails_the_subtask(run: Run, answer: Any, complaint: str) -> None:
    sink = Table(sl.CommitScope.DRIVER)
    driver = Driver(run, sink)
    sink.made.answers = [answer]
    driver.commit(run, sink)
    with pytest.raises(UserCodeError, match=complaint):
        driver.carry()

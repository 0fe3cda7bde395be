"""Sinks in a subtask: what is prepared, kept and committed, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import snapline as sl
from snapline.errors import StorageError, UserCodeError
from snapline.operators import sink_operator
from snapline.operators.sink_operator import SinkOperator
from snapline.protocol.statistics.task_metrics import CommitFigures
from snapline.state.operator_state import OperatorStates
from snapline.state.subtask_states import SubtaskStates

Run = Callable[..., Any]
R = sl.CommitResult


class Writer(sl.SinkWriter):
    """Prepares the values it was given, and answers commits as told, in the end with COMMITTED."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.log: list[tuple[Any, ...]] = []
        self.answers: list[Any] = []
        self.payloads: Any = None

    def write(self, batch: pa.RecordBatch) -> None:
        self.values += batch.column(0).to_pylist()

    def prepare(self, checkpoint_id: int) -> Sequence[Any]:
        values, self.values = self.values, []
        return list(values) if self.payloads is None else self.payloads

    def commit(self, committable: sl.Committable, permit: sl.Permit) -> sl.CommitResult | sl.RetryWith:
        self.log.append(("commit", committable.payload, permit.attempt, permit.checkpoint_id))
        answer = self.answers.pop(0) if self.answers else R.COMMITTED
        if isinstance(answer, Exception):
            raise answer
        result: sl.CommitResult | sl.RetryWith = answer
        return result

    def abort_newer(self, checkpoint_id: int) -> None:
        self.log.append(("abort newer", checkpoint_id))

    def close(self) -> None:
        self.log.append(("close",))


class Fake(sl.Sink):
    def __init__(self) -> None:
        self.contexts: list[sl.SinkContext] = []
        self.made = Writer()

    def writer(self, context: sl.SinkContext) -> Writer:
        self.contexts.append(context)
        return self.made


def opened(run: Run, *, restored: Sequence[Any] = (), **options: Any) -> tuple[Any, Any, Writer]:
    sink = Fake()
    states = SubtaskStates(OperatorStates("it", 0))
    states.operator.list_state("committables", bytes).extend(msgspec.msgpack.encode(item) for item in restored)
    harness = run(SinkOperator(sink), states=states, **{"attempt": 3, "subtask": 1, **options})
    operator = harness.open()
    assert sink.contexts == [sl.SinkContext("job", "it", 1, 1, 3)]
    return harness, operator, sink.made


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def kept(harness: Any) -> list[Any]:
    return [msgspec.msgpack.decode(item) for item in harness.elements("committables")]


def checkpoint(operator: Any, checkpoint_id: int) -> None:
    operator.prepare_snapshot(checkpoint_id)
    operator.snapshot(checkpoint_id)


def test_rows_are_committed_once_their_checkpoint_is_complete(run: Run) -> None:
    harness, operator, writer = opened(run)
    assert writer.log == [("abort newer", -1)]
    operator.process(rows(10, 11), 0)
    checkpoint(operator, 1)
    assert kept(harness) == [["job/it/1/3/1/0", 1, 10], ["job/it/1/3/1/1", 1, 11]]
    assert operator.has_unfinished_work
    assert writer.log == [("abort newer", -1)]
    operator.checkpoint_completed(1)
    assert writer.log[1:] == [("commit", 10, 3, 1), ("commit", 11, 3, 1)]
    assert not operator.has_unfinished_work
    checkpoint(operator, 2)
    assert kept(harness) == []


def test_a_checkpoint_that_never_was_is_committed_with_the_next(run: Run) -> None:
    harness, operator, writer = opened(run)
    operator.process(rows(1), 0)
    checkpoint(operator, 1)
    operator.checkpoint_aborted(1)
    operator.process(rows(2), 0)
    checkpoint(operator, 2)
    assert [item[2] for item in kept(harness)] == [1, 2]
    operator.checkpoint_completed(2)
    assert writer.log[1:] == [("commit", 1, 3, 2), ("commit", 2, 3, 2)]


def test_what_a_newer_checkpoint_prepared_stays_uncommitted(run: Run) -> None:
    harness, operator, writer = opened(run)
    for number in (1, 2):
        operator.process(rows(number), 0)
        operator.prepare_snapshot(number)
    operator.snapshot(1)
    assert [item[2] for item in kept(harness)] == [1]
    operator.checkpoint_completed(1)
    assert writer.log[1:] == [("commit", 1, 3, 1)]
    assert operator.has_unfinished_work


def test_restored_committables_are_committed_after_newer_ones_are_aborted(run: Run) -> None:
    restored = [["job/it/0/2/4/0", 4, "a"], ["job/it/0/2/5/0", 5, {"b": 1}]]
    _, operator, writer = opened(run, restored=restored, restored_id=5, prepared_until=7)
    assert writer.log == [("abort newer", 7), ("commit", "a", 3, 5), ("commit", {"b": 1}, 3, 5)]
    assert not operator.has_unfinished_work


def test_commits_go_one_at_a_time_and_in_order_while_writing_goes_on(run: Run) -> None:
    harness, operator, writer = opened(run, slow=True)
    operator.process(rows(1, 2), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    operator.process(rows(3), 0)
    checkpoint(operator, 2)
    operator.checkpoint_completed(2)
    committed: list[Any] = []
    while harness.waiting:
        assert len(harness.waiting) == 1
        assert operator.has_unfinished_work
        # What is on its way belongs to every snapshot until its answer is there.
        assert [item[2] for item in kept(harness)] == [1, 2, 3]
        harness.run_one()
        committed = [entry[1] for entry in writer.log[1:]]
    assert committed == [1, 2, 3]
    assert not operator.has_unfinished_work


def test_a_commit_that_asks_for_it_is_tried_again_before_all_others(run: Run) -> None:
    harness, operator, writer = opened(run)
    writer.answers = [R.RETRY_LATER, R.RETRY_LATER, R.ALREADY_COMMITTED]
    operator.process(rows(1, 2), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    assert [entry[1] for entry in writer.log[1:]] == [1], "the next try comes after a pause"
    while not harness.mail.empty():
        harness.read_mail()
    assert [entry[1] for entry in writer.log[1:]] == [1, 1, 1, 2]
    assert not operator.has_unfinished_work


def test_pauses_between_tries_grow_up_to_a_second(run: Run) -> None:
    pauses: list[int] = []

    def call_later(delay_ms: int, call: Callable[[], None]) -> None:
        pauses.append(delay_ms)
        call()

    _, operator, writer = opened(run, committer_retries=8, call_later=call_later)
    writer.answers = [R.RETRY_LATER] * 8
    operator.process(rows(1), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    assert pauses == [50, 100, 200, 400, 800, 1000, 1000, 1000]


def test_what_waits_for_its_next_try_is_unfinished_and_in_every_snapshot(run: Run) -> None:
    harness, operator, writer = opened(run)
    writer.answers = [R.RETRY_LATER]
    operator.process(rows(1), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    checkpoint(operator, 2)
    assert operator.has_unfinished_work
    assert [item[2] for item in kept(harness)] == [1]
    assert harness.waiting == [], "no thread waits meanwhile"
    operator.close()
    assert [entry[0] for entry in writer.log] == ["abort newer", "commit", "close"]


@pytest.mark.parametrize(
    ("answers", "kind", "complaint"),
    [
        ([R.RETRY_LATER] * 3, UserCodeError, "sink 'it': commit of job/it/1/3/1/0 failed 3 times"),
        ([R.FAILED_UNKNOWN], UserCodeError, "failed for an unknown reason"),
        ([ValueError("no luck")], UserCodeError, "could not commit job/it/1/3/1/0: ValueError: no luck"),
        ([StorageError("no disk")], StorageError, "no disk"),
        ([True], UserCodeError, "gave True; it must give a CommitResult"),
        ([sl.RetryWith(object())], UserCodeError, "replaced job/it/1/3/1/0 with something that is no plain data"),
        ([sl.RetryWith(number) for number in range(3)], UserCodeError, "commit of job/it/1/3/1/0 failed 3 times"),
    ],
)
def test_a_commit_that_fails_fails_the_task(
    run: Run, answers: list[Any], kind: type[Exception], complaint: str
) -> None:
    _, operator, writer = opened(run, call_later=lambda _, call: call())
    writer.answers = answers
    operator.process(rows(1), 0)
    checkpoint(operator, 1)
    with pytest.raises(kind, match=complaint):
        operator.checkpoint_completed(1)
    assert operator.has_unfinished_work


def test_a_known_failure_drops_only_what_failed(run: Run) -> None:
    _, operator, writer = opened(run)
    writer.answers = [R.FAILED_KNOWN]
    operator.process(rows(1, 2), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    assert [entry[1] for entry in writer.log[1:]] == [1, 2]
    assert not operator.has_unfinished_work


def test_payloads_are_plain_data_and_seen_as_they_are_kept(run: Run) -> None:
    _, operator, writer = opened(run)
    writer.payloads = [("a", 1)]
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    assert writer.log[1:] == [("commit", ["a", 1], 3, 1)]
    writer.payloads = [object()]
    with pytest.raises(UserCodeError, match="sink 'it' prepared something that is no plain data"):
        operator.prepare_snapshot(2)


def test_a_sink_that_writes_at_once_has_nothing_to_commit(run: Run) -> None:
    harness, operator, writer = opened(run)
    operator.sink.two_phase = False
    writer.payloads = []
    checkpoint(operator, 1)
    assert kept(harness) == []
    writer.payloads = [1]
    with pytest.raises(UserCodeError, match="sink 'it' prepared something that needs a commit, but its `two_phase` is"):
        operator.prepare_snapshot(2)


def test_without_checkpoints_the_end_of_the_input_commits(run: Run) -> None:
    _, operator, writer = opened(run, takes_last_checkpoint=False)
    operator.process(rows(1), 0)
    operator.finish()
    assert [entry[:2] for entry in writer.log[1:]] == [("commit", 1)]
    assert not operator.has_unfinished_work


def test_the_end_of_the_input_also_commits_what_a_savepoint_has_prepared_before(run: Run) -> None:
    restored = [["job/it/0/2/5/0", 5, 1]]
    _, operator, writer = opened(run, takes_last_checkpoint=False, restored=restored, restored_id=5)
    operator.process(rows(2), 0)
    checkpoint(operator, 6)
    operator.process(rows(3), 0)
    operator.finish()
    assert writer.log[1:] == [("commit", 1, 3, 5), ("commit", 2, 3, 7), ("commit", 3, 3, 7)]
    assert not operator.has_unfinished_work


def test_the_end_of_the_input_counts_on_from_what_was_restored(run: Run) -> None:
    _, operator, writer = opened(run, takes_last_checkpoint=False, restored_id=5, prepared_until=7)
    operator.process(rows(1), 0)
    operator.finish()
    assert writer.log == [("abort newer", 7), ("commit", 1, 3, 8)]


def test_with_checkpoints_the_end_of_the_input_commits_nothing(run: Run) -> None:
    _, operator, writer = opened(run)
    operator.process(rows(1), 0)
    operator.finish()
    assert writer.log == [("abort newer", -1)]
    assert writer.values == [1]


def test_one_that_was_never_opened_can_be_closed() -> None:
    operator = SinkOperator(Fake())
    assert not operator.has_unfinished_work
    operator.close()


def test_before_it_is_opened_it_is_a_sink_that_knows_of_no_checkpoint() -> None:
    # Nobody may take it for an operator that commits nothing: whoever waits for commits would not wait for its own.
    assert SinkOperator(Fake()).commit_figures() == CommitFigures(told_id=-1)


def test_a_commit_may_replace_its_payload_which_the_next_snapshot_keeps(run: Run) -> None:
    harness, operator, writer = opened(run)
    writer.answers = [sl.RetryWith({"rest": (1, 2)}), sl.RetryWith(None), R.COMMITTED]
    operator.process(rows(1, 2), 0)
    checkpoint(operator, 1)
    operator.checkpoint_completed(1)
    checkpoint(operator, 2)
    assert [item[2] for item in kept(harness)] == [{"rest": [1, 2]}, 2], "as it comes back"
    while not harness.mail.empty():
        harness.read_mail()
    assert [entry[1] for entry in writer.log[1:]] == [1, {"rest": [1, 2]}, None, 2], "None replaces too"
    assert not operator.has_unfinished_work


@pytest.mark.parametrize("scope", sl.CommitScope)
def test_a_writer_that_keeps_much_gets_no_more_while_an_older_checkpoint_is_under_way(
    scope: sl.CommitScope, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fake, "commit_scope", scope)
    monkeypatch.setattr(Writer, "kept_bytes", property(lambda writer: len(writer.values)))
    monkeypatch.setattr(sink_operator, "MOST_KEPT_BYTES", 2)
    _, operator, writer = opened(run)
    operator.process(rows(1, 2, 3), 0)
    seen = [("nothing was prepared", operator.is_full)]
    checkpoint(operator, 1)
    seen.append(("nothing is kept", operator.is_full))
    operator.process(rows(4, 5, 6), 0)
    seen.append(("checkpoint 1 is under way", operator.is_full))
    operator.checkpoint_aborted(1)
    seen.append(("only the next barrier helps", operator.is_full))
    checkpoint(operator, 2)
    operator.process(rows(7, 8, 9), 0)
    seen.append(("checkpoint 2 is under way", operator.is_full))
    operator.checkpoint_completed(2)
    seen.append(("all is committed", operator.is_full))
    assert [is_full for _, is_full in seen] == [False, False, True, False, True, False], seen
    assert writer.values == [7, 8, 9]

"""The commits of a subtask that go elsewhere: what is kept until the answer, and under which names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from snapline.contracts.sink import CommitResult, Committable, Permit, RetryWith
from snapline.operators import commit_queue
from snapline.operators.commit_queue import Answer, CommitQueue
from snapline.protocol.statistics.task_metrics import CommitFigures


class Elsewhere:
    def __init__(self, run: Callable[..., Any], **options: Any) -> None:
        from snapline.operators.sink_operator import SinkOperator  # any operator: only its harness is used

        self.harness = run(SinkOperator.__new__(SinkOperator), **options)
        self.asked: list[tuple[Committable, Permit, Answer]] = []
        self.aborted: list[int] = []
        self.queue = CommitQueue(
            self.harness.context,
            lambda committable, permit, answer: self.asked.append((committable, permit, answer)),
            self.aborted.append,
        )

    def answer(self, result: CommitResult | RetryWith) -> None:
        future: Future[Any] = Future()
        future.set_result(result)
        self.asked.pop(0)[2](future)


def test_one_commit_at_a_time_and_each_is_kept_until_its_answer(run: Callable[..., Any]) -> None:
    it = Elsewhere(run, lineage="job.7", attempt=2)
    it.queue.restore()
    assert it.aborted == [-1]
    it.queue.prepared(4, ["a", "b"])
    it.queue.completed(4)
    assert [entry[0].name for entry in it.asked] == ["job.7/it/0/2/4/0"]
    it.queue.snapshot(5)
    kept = [msgspec.msgpack.decode(entry) for entry in it.harness.elements("committables")]
    assert [entry[2] for entry in kept] == ["a", "b"]
    it.answer(CommitResult.COMMITTED)
    assert [entry[0].payload for entry in it.asked] == ["b"]
    assert not it.queue.is_empty
    it.answer(CommitResult.ALREADY_COMMITTED)
    assert it.queue.is_empty


def test_the_next_id_is_behind_everything_that_was_prepared(run: Callable[..., Any]) -> None:
    it = Elsewhere(run, restored_id=3, prepared_until=9)
    assert it.queue.last_id == 9
    it.queue.prepared(12, [])
    assert it.queue.last_id == 12


def test_figures_say_how_long_commits_took_and_what_waits(run: Callable[..., Any]) -> None:
    it = Elsewhere(run)
    it.queue.restore()
    it.queue.prepared(1, ["a"])
    assert it.queue.figures() == CommitFigures(), "nothing is complete"
    it.queue.completed(1)
    it.harness.now_ms += 70
    figures = it.queue.figures()
    assert (figures.waiting, figures.waiting_ms, figures.done) == (1, 70, ())
    it.answer(CommitResult.RETRY_LATER)
    it.harness.now_ms += 30
    assert it.queue.figures().retries == 1
    assert "/1/0 was asked to be tried again later" in it.queue.figures().last_problem
    it.harness.mail.get_nowait()()
    it.answer(CommitResult.COMMITTED)
    figures = it.queue.figures()
    assert [checkpoint for checkpoint, _ in figures.done] == [1]
    assert figures.done[0][1] >= 100
    assert (figures.waiting, figures.retries) == (0, 0)
    assert it.queue.figures().done == (), "each is told once"
    assert figures.dropped == 0


def test_what_has_failed_for_good_is_counted(run: Callable[..., Any]) -> None:
    it = Elsewhere(run)
    it.queue.restore()
    it.queue.prepared(1, ["a"])
    it.queue.completed(1)
    it.answer(CommitResult.FAILED_KNOWN)
    figures = it.queue.figures()
    assert (figures.dropped, figures.waiting) == (1, 0)
    assert "has failed for good and was dropped" in figures.last_problem


def test_a_queue_is_behind_when_output_of_several_checkpoints_waits(run: Callable[..., Any]) -> None:
    it = Elsewhere(run)
    it.queue.restore()
    for checkpoint in (1, 2, 3):
        it.queue.prepared(checkpoint, ["rows"])
        it.queue.completed(checkpoint)
    behind = [it.queue.is_behind]
    it.answer(CommitResult.COMMITTED)
    behind.append(it.queue.is_behind)
    assert behind == [True, False]


def test_what_a_checkpoint_held_waits_too(run: Callable[..., Any]) -> None:
    it = Elsewhere(run, restored_id=3)
    it.queue.prepared(3, ["rows"])
    it.queue.snapshot(3)
    again = CommitQueue(it.harness.context, lambda *order: it.asked.append(order), it.aborted.append)
    again.restore()
    assert again.figures().waiting == 1
    restoring = [again.is_restoring]
    it.answer(CommitResult.COMMITTED)
    assert [*restoring, again.is_restoring] == [True, False]
    assert [checkpoint for checkpoint, _ in again.figures().done] == [3]


def test_what_waits_for_its_commit_stays_the_same_object_in_state(run: Callable[..., Any]) -> None:
    it = Elsewhere(run)
    it.queue.restore()
    it.queue.prepared(1, ["a", "b"])
    it.queue.snapshot(1)
    first = it.harness.elements("committables")
    it.queue.completed(1)
    it.queue.prepared(2, ["c"])
    it.queue.snapshot(2)
    second = it.harness.elements("committables")
    assert [a is b for a, b in zip(first, second, strict=False)] == [True, True]
    it.answer(RetryWith("A"))
    it.queue.snapshot(3)
    third = it.harness.elements("committables")
    assert msgspec.msgpack.decode(third[0])[2] == "A", "the payload was replaced"
    assert [third[1] is second[1], third[2] is second[2]] == [True, True]


def test_what_was_restored_stays_the_same_object_too(run: Callable[..., Any]) -> None:
    it = Elsewhere(run, restored_id=4)
    data = msgspec.msgpack.encode(["job/it/0/1/4/0", 4, "a"])
    it.harness.states.operator.list_state("committables", bytes).add(data)
    before = it.harness.elements("committables")
    it.queue.restore()
    it.queue.snapshot(5)
    assert it.harness.elements("committables")[0] is before[0]


def test_no_more_is_taken_while_much_waits(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_queue, "MOST_WAITING_BYTES", 100)
    it = Elsewhere(run)
    it.queue.restore()
    it.queue.prepared(1, ["a" * 200])
    it.queue.snapshot(1)
    assert not it.queue.is_behind, "nothing is complete: only a checkpoint can help"
    it.queue.completed(1)
    behind = [it.queue.is_behind]
    it.answer(CommitResult.COMMITTED)
    behind.append(it.queue.is_behind)
    assert behind == [True, False]


def test_what_was_prepared_progresses_until_it_is_committed_or_its_checkpoint_aborted(run: Callable[..., Any]) -> None:
    it = Elsewhere(run)
    it.queue.restore()
    seen = [it.queue.will_progress]
    it.queue.prepared(1, ["a"])
    seen.append(it.queue.will_progress)
    it.queue.aborted(1)
    seen.append(it.queue.will_progress)
    it.queue.prepared(2, ["b"])
    it.queue.completed(2)
    seen.append(it.queue.will_progress)
    it.answer(CommitResult.COMMITTED)
    seen.append(it.queue.will_progress)
    it.answer(CommitResult.COMMITTED)
    seen.append(it.queue.will_progress)
    assert seen == [False, True, False, True, True, False]

"""The commits of a subtask that go elsewhere: what is kept until the answer, and under which names."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec

from snapline.contracts.sink import CommitResult, Committable, Permit
from snapline.operators.commit_queue import Answer, CommitQueue


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

    def answer(self, result: CommitResult) -> None:
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

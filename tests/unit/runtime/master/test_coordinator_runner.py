"""Calls of one coordinator: one at a time, in order, with what it orders carried out when they return."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest
from tests.unit.runtime.runtime_bench import Bench

import snapline as sl
from snapline.errors import UserCodeError
from snapline.runtime.master import coordinator_runner
from snapline.runtime.master.coordinator_runner import CoordinatorPlace, CoordinatorRunner
from snapline.runtime.scheduler.background_calls import BackgroundCalls


class Noting(sl.OperatorCoordinator):
    """Notes every call; `acts` holds what to do in calls of a name."""

    def __init__(self, bench: Bench) -> None:
        self.log: list[Any] = []
        self.acts: dict[str, Callable[[], Any]] = {}
        self.call_ms = 0
        self._bench = bench

    def _note(self, name: str, *details: Any) -> Any:
        self.log.append((name, *details))
        if self.call_ms:
            self._bench.kernel.sleep(self.call_ms)
        return self.acts.get(name, lambda: None)()

    def start(self, context: sl.CoordinatorContext) -> None:
        super().start(context)
        self._note("start", context.is_restored)

    def restore(self, checkpoint_id: int, state: Any) -> None:
        self._note("restore", checkpoint_id, state)

    def handle_event(self, subtask: int, event: Any) -> None:
        self._note("event", subtask, event)

    def snapshot(self, checkpoint_id: int) -> Any:
        return self._note("snapshot", checkpoint_id)

    def subtask_failed(self, subtask: int, cause: str) -> None:
        self._note("failed", subtask, cause)

    def checkpoint_completed(self, checkpoint_id: int) -> None:
        self._note("completed", checkpoint_id)

    def checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._note("subsumed", checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._note("aborted", checkpoint_id)

    def close(self) -> None:
        self._note("close")


class Setup(Bench):
    def __init__(self, state: bytes | None = None) -> None:
        super().__init__()
        self.coordinator = Noting(self)
        self.sent: list[tuple[int, Any]] = []
        self.failures: list[str] = []
        self.backlogs: list[bool] = []
        calls, background = (BackgroundCalls(self.scheduler, 2, name) for name in ("calls", "background"))
        place = CoordinatorPlace("job", "rules", 2, 3, "job.1", 7)
        self.runner = CoordinatorRunner(self.coordinator, place, self.scheduler, calls, background)
        self.state = state

    def begin(self) -> None:
        self.blocking(lambda: self.runner.begin(self.state))
        self.runner.attach(
            [],
            lambda subtask, event: self.sent.append((subtask, event)),
            lambda error: self.failures.append(str(error)),
            self.backlogs.append,
        )
        self.advance(100)

    @property
    def log(self) -> list[Any]:
        return self.coordinator.log

    def event(self, subtask: int, event: Any) -> None:
        self.runner.handle_event(subtask, msgspec.msgpack.encode(event))

    def snapshot(self) -> list[Any]:
        answers: list[Any] = []
        self.runner.snapshot(8, answers.append, lambda error: answers.append(str(error)))
        self.advance(100)
        return answers

    def send(self, *events: tuple[int, Any]) -> Callable[[], None]:
        def call() -> None:
            for event in events:
                self.coordinator.context.send(*event)

        return call


def test_it_starts_is_restored_works_and_is_closed() -> None:
    setup = Setup(msgspec.msgpack.encode({"next": 5}))
    setup.begin()
    context = setup.coordinator.context
    assert (context.uid, context.parallelism, context.attempt, context.restored_id) == ("rules", 2, 3, 7)
    setup.event(1, ["x"])
    setup.runner.checkpoint_completed(8)
    setup.runner.checkpoint_subsumed(7)
    setup.runner.checkpoint_aborted(9)
    setup.runner.subtask_failed(0, "boom")
    setup.event(1, "dropped")
    setup.runner.close(finish=False)
    setup.runner.close(finish=False)
    setup.event(1, "late")
    setup.advance(100)
    assert setup.log[:3] == [("start", True), ("restore", 7, {"next": 5}), ("event", 1, ["x"])]
    notices = [("completed", 8), ("subsumed", 7), ("aborted", 9), ("failed", 0, "boom")]
    assert setup.log[3:] == [*notices, ("close",)]
    assert setup.runner.closed.done()


def test_at_the_end_of_the_job_it_handles_what_has_arrived() -> None:
    setup = Setup()
    setup.begin()
    setup.coordinator.call_ms = 20
    for number in range(3):
        setup.event(0, number)
    setup.runner.close(finish=True)
    setup.event(0, "late")
    setup.advance(200)
    assert setup.log[1:] == [("event", 0, 0), ("event", 0, 1), ("event", 0, 2), ("close",)]


def test_without_state_it_only_starts() -> None:
    setup = Setup()
    setup.begin()
    assert setup.log == [("start", False)]


def test_calls_come_one_at_a_time_and_events_leave_when_they_return() -> None:
    setup = Setup()
    setup.begin()
    setup.coordinator.call_ms = 20
    setup.coordinator.acts["event"] = setup.send((0, "a"), (1, "b"))
    setup.coordinator.acts["snapshot"] = lambda: {"n": 1}
    setup.event(0, 1)
    setup.event(1, 2)
    answers: list[Any] = []
    setup.runner.snapshot(8, lambda data: answers.append((list(setup.sent), data)), lambda error: None)
    setup.event(0, 3)
    setup.advance(15)
    assert (setup.log[1:], setup.sent) == ([("event", 0, 1)], [])
    setup.advance(200)
    assert setup.log[1:] == [("event", 0, 1), ("event", 1, 2), ("snapshot", 8), ("event", 0, 3)]
    before = [(0, "a"), (1, "b")] * 2
    assert answers == [(before, msgspec.msgpack.encode({"n": 1}))]
    assert setup.sent == [*before, (0, "a"), (1, "b")]


def test_what_is_sent_at_the_start_leaves_when_the_attempt_runs() -> None:
    setup = Setup()
    setup.coordinator.acts["start"] = setup.send((1, {"rule": (1, 2)}))
    setup.begin()
    assert setup.sent == [(1, {"rule": [1, 2]})], "as it travels"


def test_delayed_and_background_calls_are_calls_of_its_own() -> None:
    setup = Setup()
    setup.begin()
    context = setup.coordinator.context
    results: list[Any] = []

    def done(answer: Future[Any]) -> None:
        results.append(answer.exception() or answer.result())
        context.send(0, len(results))

    def look() -> None:
        context.background(lambda: 1 // 1, done)
        context.background(lambda: 1 // 0, done)

    setup.coordinator.acts["event"] = lambda: context.call_later(500, look)
    setup.event(0, None)
    setup.advance(400)
    assert results == []
    setup.advance(200)
    assert (sorted(map(str, results)), setup.sent) == (["1", "integer division or modulo by zero"], [(0, 1), (0, 2)])


def test_other_threads_post_their_calls() -> None:
    setup = Setup()
    setup.begin()
    context = setup.coordinator.context
    with pytest.raises(UserCodeError, match=r"send was called outside the calls of the coordinator of 'rules'; .*post"):
        context.send(0, "x")
    context.post(lambda: context.send(0, "x"))
    setup.advance(50)
    assert setup.sent == [(0, "x")]


@pytest.mark.parametrize("name", ["event", "completed", "aborted", "subsumed", "failed"])
def test_an_error_fails_the_job_and_names_the_call(name: str) -> None:
    setup = Setup()
    setup.begin()
    context = setup.coordinator.context
    setup.coordinator.acts[name] = lambda: context.send(0, "dropped") or 1 // 0  # type: ignore[func-returns-value]
    setup.event(0, None)
    setup.runner.checkpoint_completed(1)
    setup.runner.checkpoint_aborted(2)
    setup.runner.checkpoint_subsumed(1)
    setup.runner.subtask_failed(0, "boom")
    setup.advance(200)
    (failure,) = setup.failures
    assert "of the coordinator of 'rules' failed: ZeroDivisionError" in failure
    assert setup.sent == []


def test_an_error_in_a_snapshot_fails_the_checkpoint_only() -> None:
    setup = Setup()
    setup.begin()
    setup.coordinator.acts["snapshot"] = lambda: 1 // 0
    assert setup.snapshot() == [
        "snapshot of the coordinator of 'rules' failed: ZeroDivisionError: integer division or modulo by zero"
    ]
    setup.coordinator.acts["snapshot"] = lambda: object()
    (problem,) = setup.snapshot()
    assert "the state of the coordinator of 'rules' is no plain data" in problem
    setup.coordinator.acts["snapshot"] = setup.send((0, "x"))
    (problem,) = setup.snapshot()
    assert "sends an event in snapshot()" in problem
    setup.event(0, "goes on")
    setup.advance(50)
    assert (setup.failures, setup.sent, setup.log[-1]) == ([], [], ("event", 0, "goes on"))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ((2, "x"), "to subtask 2; there are 0 to 1"),
        ((-1, "x"), "to subtask -1; there are 0 to 1"),
        (("a", "x"), "to subtask 'a'"),
        ((0, object()), "an event of the coordinator of 'rules' is no plain data"),
        ((0, b"x" * 17_000_000), "at most 16777216 may be sent"),
    ],
)
def test_wrong_events_are_refused(event: tuple[int, Any], problem: str) -> None:
    setup = Setup()
    setup.begin()
    setup.coordinator.acts["event"] = setup.send(event)
    setup.event(0, None)
    setup.advance(50)
    assert problem in setup.failures[0]


def test_an_error_at_the_start_is_raised() -> None:
    setup = Setup()
    setup.coordinator.acts["start"] = lambda: 1 // 0
    with pytest.raises(UserCodeError, match="start of the coordinator of 'rules' failed: ZeroDivisionError"):
        setup.begin()
    setup.runner.close(finish=False)
    setup.advance(50)
    assert setup.log[-1] == ("close",)


def test_a_coordinator_that_does_not_keep_up_fails_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_runner, "MAX_WAITING_CALLS", 3)
    setup = Setup()
    setup.begin()
    setup.coordinator.call_ms = 1000
    for number in range(5):
        setup.event(0, number)
    assert "3 calls wait for the coordinator of the operator 'rules'" in setup.failures[0]


def test_the_end_waits_for_the_call_under_way_and_drops_what_it_orders() -> None:
    setup = Setup()
    setup.begin()
    setup.coordinator.call_ms = 100
    setup.coordinator.acts["event"] = setup.send((0, "late"))
    setup.event(0, 1)
    setup.advance(50)
    setup.runner.subtask_failed(1, "boom")
    setup.runner.close(finish=False)
    setup.advance(500)
    assert setup.log[1:] == [("event", 0, 1), ("failed", 1, "boom"), ("close",)]
    assert setup.sent == []

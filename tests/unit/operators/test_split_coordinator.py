"""The coordinator of a source: answers who asks, and looks for more splits at the source's interval."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from tests.unit.operators.test_split_assigner import NOTHING, Parts, answer

from snapline.contracts.operator_coordinator import CoordinatorContext
from snapline.errors import UserCodeError
from snapline.operators.split_coordinator import SplitCoordinator


class Setup:
    """A context whose delayed and background calls the test makes."""

    def __init__(self, source: Parts) -> None:
        self.coordinator = SplitCoordinator(source)
        self.sent: list[tuple[int, Any]] = []
        self.backlogs: list[bool] = []
        self.later: list[tuple[int, Callable[[], None]]] = []
        self.background: list[tuple[Callable[[], Any], Callable[[Future[Any]], None]]] = []

    def start(self, state: Any = None) -> None:
        context = CoordinatorContext(
            job_id="job",
            uid="it",
            parallelism=2,
            attempt=1,
            lineage="job",
            restored_id=-1,
            is_restored=state is not None,
            clock=lambda: 0,
            send=lambda subtask, event: self.sent.append((subtask, event)),
            background=lambda call, done: self.background.append((call, done)),
            call_later=lambda delay_ms, call: self.later.append((delay_ms, call)),
            post=lambda call: call(),
            report_backlog=self.backlogs.append,
        )
        self.coordinator.start(context)
        if state is not None:
            self.coordinator.restore(7, state)

    def look(self) -> None:
        """The next look at the source is due, and made."""
        for delay_ms, call in self.later:
            assert delay_ms == 1000
            call()
        self.later.clear()
        self.finish_look()

    def finish_look(self) -> None:
        """The look under way comes to its end."""
        ((call_source, done),) = self.background
        self.background.clear()
        future: Future[Any] = Future()
        try:
            future.set_result(call_source())
        except Exception as error:
            future.set_exception(error)
        done(future)


def test_who_asks_is_answered() -> None:
    setup = Setup(Parts(["a", "b"], bounded=True))
    setup.start()
    setup.coordinator.handle_event(1, None)
    setup.coordinator.handle_event(0, None)
    assert setup.sent == [(1, answer(["a"], more=True)), (0, answer(["b"], more=False))]
    assert setup.later == [], "a bounded source has nothing to discover"


def test_a_restored_one_does_not_ask_the_source_for_its_first_splits() -> None:
    before = Setup(Parts(["a", "b"], bounded=True))
    before.start()
    before.coordinator.handle_event(1, None)
    after = Setup(Parts(None, bounded=True))
    after.start(before.coordinator.snapshot(7))
    after.coordinator.handle_event(0, None)
    assert after.sent == [(0, answer(["b"], more=False))]


def test_it_looks_for_more_again_and_again_and_answers_who_has_waited() -> None:
    source = Parts([], bounded=False, in_step=False, found=[([], 1), (["a"], 2), ([], 3)])
    setup = Setup(source)
    setup.start()
    setup.coordinator.handle_event(0, None)
    setup.look()
    assert setup.sent == [(0, NOTHING), (0, answer(["a"], more=True))]
    setup.look()
    assert source.asked == [None, 1, 2]
    assert len(setup.later) == 1


def test_it_does_not_look_for_more_while_enough_is_waiting() -> None:
    source = Parts([], bounded=False, in_step=False, found=[(["a", "b", "c"], 1), ([], 2)])
    source.max_waiting_splits = 2
    setup = Setup(source)
    setup.start()
    ((_, call),) = setup.later
    setup.later.clear()
    call()
    assert (setup.background, len(setup.later)) == ([], 1), "it only looks at the clock again"
    setup.coordinator.handle_event(0, None)
    setup.look()
    assert source.asked == [None, 1]


def test_errors_name_the_source_and_the_call() -> None:
    with pytest.raises(UserCodeError, match="splits of the source 'it' failed: TypeError"):
        Setup(Parts(None, bounded=True)).start()
    setup = Setup(Parts([], bounded=False, found=[([], 1)]))
    setup.start()
    with pytest.raises(UserCodeError, match=r"discover\(\) of the source 'it' failed: IndexError"):
        setup.look()


def watching(*found: Any) -> tuple[Setup, list[str]]:
    """Subtasks of a source that watches something, and what happens when it is drained."""
    setup, drained = Setup(Parts([], bounded=False, in_step=False, found=[([], 0), *found])), list[str]()
    setup.start()
    return setup, drained


@pytest.mark.parametrize("is_looking", [False, True], ids=["between two looks", "during a look"])
def test_draining_looks_once_more_and_waits_until_all_is_read(is_looking: bool) -> None:
    setup, drained = watching(*([([], 1)] * is_looking), (["a"], 2), ([], 3))
    for subtask in (0, 1):
        setup.coordinator.handle_event(subtask, None)
    if is_looking:
        ((_, call),) = setup.later
        setup.later.clear()
        call()
    setup.coordinator.drain(lambda: drained.append("drained"))
    if is_looking:
        setup.finish_look()
        assert drained == [], "it may have missed what is there now"
    setup.finish_look()
    assert setup.sent == [(0, NOTHING), (1, NOTHING), (0, answer(["a"], more=True))]
    assert drained == [], "it is being read"
    setup.coordinator.handle_event(0, None)
    assert drained == ["drained"]
    for _, call in setup.later:
        call()
    assert setup.background == [], "nobody looks again"
    setup.later.clear()
    setup.coordinator.resume()
    setup.look()
    assert len(setup.later) == 1


def test_a_source_that_discovers_nothing_is_drained_at_once() -> None:
    setup, drained = Setup(Parts(["a"], bounded=True)), list[str]()
    setup.start()
    setup.coordinator.drain(lambda: drained.append("drained"))
    assert drained == ["drained"]
    setup.coordinator.resume()
    assert setup.later == []


def test_a_timer_of_before_does_not_make_it_look_twice_as_often() -> None:
    setup, _ = watching(([], 1), ([], 2))
    old = list(setup.later)
    setup.later.clear()
    setup.coordinator.drain(lambda: None)
    setup.finish_look()
    setup.coordinator.resume()
    for _, call in old:
        call()
    assert setup.background == []
    setup.look()

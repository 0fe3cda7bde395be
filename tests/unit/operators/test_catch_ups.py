from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operators.test_split_assigner import Parts
from tests.unit.operators.test_split_coordinator import Setup


def parts(found: list[list[str]]) -> Parts:
    """An unbounded source whose splits are read one after the other."""
    return Parts([], bounded=False, in_step=False, found=[(splits, number) for number, splits in enumerate(found)])


def waiting(setup: Setup) -> list[bool]:
    done: list[bool] = []
    setup.coordinator.catch_up(lambda: done.append(True))
    return done


def test_splits_found_by_a_look_after_the_request_have_to_be_read() -> None:
    source = parts([["a"], ["b"], ["c"]])
    setup = Setup(source)
    setup.start()
    for subtask in (0, 1):
        setup.coordinator.handle_event(subtask, None)
    done = waiting(setup)
    setup.finish_look()
    assert not done, "one subtask reads a, the other b"
    setup.coordinator.handle_event(0, None)
    assert not done
    setup.look()
    setup.coordinator.handle_event(1, None)
    assert done == [True], "c came later"


def test_a_look_that_was_under_way_does_not_count() -> None:
    setup = Setup(parts([[], [], ["a"]]))
    setup.start()
    for _, call in setup.later:
        call()
    setup.later.clear()
    setup.coordinator.handle_event(0, None)
    done = waiting(setup)
    setup.finish_look()
    setup.finish_look()
    assert not done
    setup.coordinator.handle_event(0, None)
    assert done == [True]


def test_a_source_that_plans_as_needed_is_asked_until_it_finds_nothing() -> None:
    source = parts([[], ["a"], ["b"], []])
    source.max_waiting_splits = 5
    setup = Setup(source)
    setup.start()
    done = waiting(setup)
    for _ in range(3):
        setup.finish_look()
    for _ in range(3):
        assert not done
        setup.coordinator.handle_event(0, None)
    assert done == [True]


def test_readers_in_step_are_asked_and_answers_to_others_do_not_count() -> None:
    setup = Setup(Parts(["a", "b"], bounded=False, in_step=True))
    setup.start()
    done = waiting(setup)
    tokens = [event["catch_up"] for _, event in setup.sent]
    assert [subtask for subtask, _ in setup.sent] == [0, 1]
    setup.coordinator.handle_event(0, {"caught_up": tokens[0]})
    setup.coordinator.handle_event(1, {"caught_up": "0/1"})
    assert not done
    setup.coordinator.handle_event(1, {"caught_up": tokens[1]})
    assert done == [True]


@pytest.mark.parametrize("splits", [[], ["a"]])
def test_nobody_waits_for_a_bounded_source(splits: list[Any]) -> None:
    setup = Setup(Parts(splits, bounded=True))
    setup.start()
    assert waiting(setup) == [True]

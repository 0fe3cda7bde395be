"""Triggers of a task: each is taken once, and none is lost when the task has finished."""

from __future__ import annotations

from tests.unit.runtime.task.task_kit import ME

from snapline.protocol.messages import TriggerCheckpoint
from snapline.runtime.task.trigger_box import TriggerBox
from snapline.types import Barrier


def test_what_is_not_taken_comes_back_at_the_end() -> None:
    woken: list[int] = []
    box = TriggerBox(lambda: woken.append(1))
    triggers = [TriggerCheckpoint(ME, Barrier(number, 0)) for number in (1, 2, 3)]
    assert [box.add(trigger) for trigger in triggers] == [True] * 3
    assert len(woken) == 3
    assert box.take() is triggers[0]
    assert box.close() == triggers[1:]
    assert not box.add(triggers[0])
    assert len(woken) == 3

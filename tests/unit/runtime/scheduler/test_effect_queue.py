"""Effects one after the other: an effect is done when all that follows from it is done."""

from __future__ import annotations

import pytest

from snapline.runtime.scheduler.effect_queue import EffectQueue


class Shell:
    """Carries out words; some make a machine order more."""

    def __init__(self, queue: EffectQueue, follows: dict[str, list[str]] | None = None) -> None:
        self.queue = queue
        self.follows = follows or {}
        self.log: list[str] = []

    def carry_out(self, effect: str) -> None:
        self.log.append(f"{effect} begins")
        self.queue.add(self.carry_out, self.follows.get(effect, []))
        self.log.append(f"{effect} ends")

    def add(self, *effects: str) -> None:
        self.queue.add(self.carry_out, effects)

    def order(self) -> list[str]:
        return [line.split()[0] for line in self.log if line.endswith("begins")]


def test_effects_are_carried_out_in_order_and_at_once() -> None:
    shell = Shell(EffectQueue())
    shell.add("a", "b")
    shell.add("c")
    assert shell.order() == ["a", "b", "c"]


def test_what_follows_from_an_effect_comes_ahead_of_what_was_queued_before() -> None:
    shell = Shell(EffectQueue(), {"a": ["a1", "a2"], "a1": ["a11"]})
    shell.add("a", "b")
    assert shell.order() == ["a", "a1", "a11", "a2", "b"]


def test_nothing_is_carried_out_inside_of_another_effect() -> None:
    shell = Shell(EffectQueue(), {"a": ["a1"]})
    shell.add("a")
    assert shell.log == ["a begins", "a ends", "a1 begins", "a1 ends"]


def test_two_additions_of_one_effect_keep_their_order() -> None:
    queue = EffectQueue()
    log: list[str] = []

    def first(effect: str) -> None:
        log.append(effect)
        queue.add(log.append, ["1"])
        queue.add(log.append, ["2"])

    queue.add(first, ["a"])
    assert log == ["a", "1", "2"]


def test_shells_share_one_order() -> None:
    queue = EffectQueue()
    log: list[str] = []

    def one(effect: str) -> None:
        log.append(f"one {effect}")
        queue.add(lambda other: log.append(f"other {other}"), [effect])

    queue.add(one, ["a", "b"])
    assert log == ["one a", "other a", "one b", "other b"]


def test_after_an_error_nothing_that_was_queued_counts_and_the_queue_works_on() -> None:
    queue = EffectQueue()
    log: list[str] = []

    def carry_out(effect: str) -> None:
        queue.add(log.append, ["follows"])
        if effect == "bad":
            raise ValueError(effect)
        log.append(effect)

    with pytest.raises(ValueError, match="bad"):
        queue.add(carry_out, ["good", "bad", "never"])
    assert log == ["good", "follows"]
    queue.add(log.append, ["next"])
    assert log == ["good", "follows", "next"]


def test_no_effects_are_fine() -> None:
    queue = EffectQueue()
    queue.add(lambda _: pytest.fail("nothing to carry out"), [])

"""Event time of several channels."""

from __future__ import annotations

from random import Random

import pytest

from snapline.runtime.task.input_watermarks import NOTHING_YET, InputWatermarks
from snapline.types import IDLE, MAX_WATERMARK


def test_the_least_of_all_channels_counts() -> None:
    watermarks = InputWatermarks(2)
    assert watermarks.advance(0, 5) == []
    assert watermarks.current_ms is None
    assert watermarks.advance(1, 3) == [3]
    assert watermarks.advance(1, 9) == [5]
    assert watermarks.advance(0, 5) == []
    assert watermarks.current_ms == 5


def test_a_watermark_never_goes_back() -> None:
    watermarks = InputWatermarks(1)
    assert watermarks.advance(0, 7) == [7]
    assert watermarks.advance(0, 4) == []
    assert watermarks.advance(0, 8) == [8]


def test_idle_channels_are_left_out_until_they_speak_again() -> None:
    watermarks = InputWatermarks(2)
    watermarks.advance(0, 10)
    assert watermarks.advance(1, IDLE) == [10]
    assert watermarks.advance(0, 20) == [20]
    assert watermarks.advance(1, 15) == [], "behind what is known already"
    assert watermarks.advance(0, 30) == []
    assert watermarks.advance(1, 25) == [25]


def test_when_all_are_idle_that_is_passed_on_once() -> None:
    watermarks = InputWatermarks(2)
    watermarks.advance(0, 10)
    watermarks.advance(1, 12)
    assert watermarks.advance(0, IDLE) == [12]
    assert watermarks.advance(1, IDLE) == [IDLE]
    assert watermarks.advance(1, IDLE) == []
    assert watermarks.advance(0, 13) == [13]


def test_a_channel_that_speaks_again_ends_idleness() -> None:
    watermarks = InputWatermarks(1)
    assert watermarks.advance(0, 5) == [5]
    assert watermarks.advance(0, IDLE) == [IDLE]
    assert watermarks.advance(0, 5) == [5], "those behind must not leave this subtask out any more"


def test_ended_channels_do_not_hold_up() -> None:
    watermarks = InputWatermarks(2)
    watermarks.advance(0, 5)
    assert watermarks.advance(1, MAX_WATERMARK) == [5]
    assert watermarks.advance(0, MAX_WATERMARK) == [MAX_WATERMARK]


def test_the_end_of_one_channel_is_not_the_end_of_all_while_the_others_are_idle() -> None:
    watermarks = InputWatermarks(3)
    watermarks.advance(0, 5)
    watermarks.advance(1, 7)
    assert watermarks.advance(2, 3) == [3]
    assert watermarks.advance(2, MAX_WATERMARK) == [5]
    assert watermarks.advance(2, MAX_WATERMARK) == []
    assert watermarks.advance(0, IDLE) == [7]
    assert watermarks.advance(1, IDLE) == [IDLE]
    assert watermarks.advance(1, 8) == [8]
    assert watermarks.advance(1, MAX_WATERMARK) == [IDLE], "the first one is still there, and still idle"
    assert watermarks.advance(0, MAX_WATERMARK) == [MAX_WATERMARK]
    assert watermarks.advance(0, MAX_WATERMARK) == []


def test_idleness_comes_behind_the_last_watermark_of_channels_that_are_all_idle() -> None:
    watermarks = InputWatermarks(2)
    watermarks.advance(1, 12)
    assert watermarks.advance(0, 10) == [10]
    assert watermarks.advance(1, IDLE) == []
    assert watermarks.advance(0, IDLE) == [12, IDLE]
    assert watermarks.advance(0, IDLE) == []
    assert watermarks.advance(0, 12) == [12], "it speaks again"


def test_channels_that_are_idle_together_hold_back_until_all_are() -> None:
    watermarks = InputWatermarks(3, [(0, 1)])
    watermarks.advance(0, 10)
    watermarks.advance(1, 10)
    assert watermarks.advance(2, IDLE) == [10]
    assert watermarks.advance(0, IDLE) == [], "the other one will be idle too"
    assert watermarks.advance(1, IDLE) == [IDLE]
    assert watermarks.advance(1, 30) == [10], "the rows before it may come by the other way"
    assert watermarks.advance(0, 20) == [20]
    assert watermarks.advance(0, 30) == [30]


def test_who_wakes_up_without_a_watermark_says_so() -> None:
    watermarks = InputWatermarks(1)
    assert watermarks.advance(0, IDLE) == [IDLE]
    assert watermarks.advance(0, NOTHING_YET) == [NOTHING_YET]
    assert watermarks.current_ms is None


class Plain(InputWatermarks):
    """Looks at all channels every time."""

    def advance(self, channel: int, watermark: int) -> list[int]:
        self._note(channel, watermark)
        return self._changed()


@pytest.mark.parametrize("seed", range(50))
def test_looking_only_when_the_last_has_moved_changes_nothing(seed: int) -> None:
    random = Random(seed)
    channels = random.randint(1, 5)
    together = [range(random.randint(1, channels))]
    quick, plain = InputWatermarks(channels, together), Plain(channels, together)
    ended: set[int] = set()
    for _ in range(200):
        channel = random.randrange(channels)
        if channel in ended:
            continue
        watermark = random.choice([IDLE, *range(random.randint(1, 30))])
        if random.random() < 0.01:
            watermark = MAX_WATERMARK
            ended.add(channel)
        assert quick.advance(channel, watermark) == plain.advance(channel, watermark)
        assert quick.current_ms == plain.current_ms

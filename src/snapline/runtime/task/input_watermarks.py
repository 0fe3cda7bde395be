"""Event time of a subtask: the minimum over its input channels that are not idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from snapline.types import IDLE, MAX_WATERMARK

NOTHING_YET = IDLE + 1
"""Less than any watermark: of a channel that is not idle, or no longer, but has had none."""


class InputWatermarks:
    """Combines the watermarks of all channels.

    Channels of a group in `together` come from subtasks that hear the same, so that they are idle or not together. That
    one of them wakes up is heard sooner by one way than by another: they are left out only while all of them are idle,
    or the rows of the slower way would be late.

    Looks at all channels only when the last one that held back the others has moved: with many channels, each of their
    watermarks would cost as much as all together.
    """

    def __init__(self, channels: int, together: Iterable[Sequence[int]] = ()) -> None:
        self._watermarks = [NOTHING_YET] * channels
        self._idle = [False] * channels
        self._ended = [False] * channels
        self._groups = list(range(channels))
        for group in together:
            for channel in group:
                self._groups[channel] = group[0]
        self._awake = Counter(self._groups)
        """How many channels of each group are neither idle nor at their end."""
        self._current = NOTHING_YET
        self._is_idle = False
        self._behind = channels
        """How many active channels are no further than the subtask."""

    @property
    def current_ms(self) -> int | None:
        """The watermark, or None before the first."""
        return None if self._current == NOTHING_YET else self._current

    def advance(self, channel: int, watermark: int) -> list[int]:
        """Take a watermark of a channel, or `IDLE`; `MAX_WATERMARK` ends the channel. Returns what to pass on."""
        before, was_active = self._watermarks[channel], self._is_active(channel)
        self._note(channel, watermark)
        if was_active and watermark not in (IDLE, MAX_WATERMARK):
            if before > self._current or watermark <= self._current:
                return []
            self._behind -= 1
            if self._behind:
                return []
        return self._changed()

    def _is_active(self, channel: int) -> bool:
        return not self._ended[channel] and self._awake[self._groups[channel]] > 0

    def _note(self, channel: int, watermark: int) -> None:
        was_awake = not (self._idle[channel] or self._ended[channel])
        if watermark == MAX_WATERMARK:
            self._ended[channel] = True
        else:
            self._idle[channel] = watermark == IDLE
            self._watermarks[channel] = max(watermark, self._watermarks[channel])
        is_awake = not (self._idle[channel] or self._ended[channel])
        self._awake[self._groups[channel]] += is_awake - was_awake

    def _changed(self) -> list[int]:
        # Ended channels no longer count, or their last watermark would win once all others are idle.
        left = [number for number, has_ended in enumerate(self._ended) if not has_ended]
        active = [self._watermarks[number] for number in left if self._is_active(number)]
        was_idle, self._is_idle = self._is_idle, bool(left) and not active
        if not left:
            least = MAX_WATERMARK
        elif active:
            least = min(active)
        else:
            # Watermarks of idle channels still hold: the greatest is what the subtask knows.
            least = max(self._watermarks[number] for number in left)
        advanced: list[int] = []
        if least > self._current:
            self._current = least
            advanced.append(least)
        elif was_idle and active:
            advanced.append(self._current)
        self._behind = sum(watermark <= self._current for watermark in active)
        if self._is_idle and (advanced or not was_idle):
            advanced.append(IDLE)
        return advanced

"""Event time of a subtask: the minimum over its input channels that are not idle."""

from __future__ import annotations

from snapline.types import IDLE, MAX_WATERMARK

NOTHING_YET = IDLE + 1
"""Less than any watermark: of a channel that is not idle, or no longer, but has had none."""


class InputWatermarks:
    """Combines the watermarks of all channels.

    Looks at all of them only when the last one that held back the others has moved: with many channels, each of their
    watermarks would cost as much as all together.
    """

    def __init__(self, channels: int) -> None:
        self._watermarks = [NOTHING_YET] * channels
        self._idle = [False] * channels
        self._ended = [False] * channels
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
        if watermark == IDLE:
            self._idle[channel] = True
        elif watermark == MAX_WATERMARK:
            self._ended[channel] = True
        else:
            before, was_active = self._watermarks[channel], not (self._idle[channel] or self._ended[channel])
            self._idle[channel] = False
            self._watermarks[channel] = max(watermark, before)
            if was_active:
                if before > self._current or watermark <= self._current:
                    return []
                self._behind -= 1
                if self._behind:
                    return []
        return self._changed()

    def _changed(self) -> list[int]:
        # Ended channels no longer count, or their last watermark would win once all others are idle.
        left = [number for number, has_ended in enumerate(self._ended) if not has_ended]
        active = [self._watermarks[number] for number in left if not self._idle[number]]
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
        elif was_idle and active and self._current != NOTHING_YET:
            advanced.append(self._current)
        self._behind = sum(watermark <= self._current for watermark in active)
        if self._is_idle and (advanced or not was_idle):
            advanced.append(IDLE)
        return advanced

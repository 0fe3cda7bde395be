"""Event time of a subtask: the least of its input channels, leaving out those that are idle."""

from __future__ import annotations

from snapline.types import IDLE, MAX_WATERMARK

_NOTHING_YET = IDLE + 1


class InputWatermarks:
    """Takes the watermarks of every channel, and tells when that of the whole changes."""

    def __init__(self, channels: int) -> None:
        self._watermarks = [_NOTHING_YET] * channels
        self._idle = [False] * channels
        self._ended = [False] * channels
        self._current = _NOTHING_YET
        self._is_idle = False
        self._owes_idle = False

    @property
    def current_ms(self) -> int | None:
        """The watermark; none before the first."""
        return None if self._current == _NOTHING_YET else self._current

    def advance(self, channel: int, watermark: int) -> int | None:
        """A channel brings a watermark, or `IDLE`: what the subtask has to pass on, if anything.

        After `MAX_WATERMARK` nothing of it is waited for.
        """
        if watermark == IDLE:
            self._idle[channel] = True
        elif watermark == MAX_WATERMARK:
            self._ended[channel] = True
        else:
            self._idle[channel] = False
            self._watermarks[channel] = max(watermark, self._watermarks[channel])
        return self._changed()

    def take_idle(self) -> bool:
        """Whether `IDLE` has to be passed on behind the watermark that was told last."""
        owes_idle, self._owes_idle = self._owes_idle, False
        return owes_idle

    def _changed(self) -> int | None:
        # Those that have ended count no more, or their last watermark would be that of all once the others are idle.
        left = [number for number, has_ended in enumerate(self._ended) if not has_ended]
        active = [self._watermarks[number] for number in left if not self._idle[number]]
        if not left:
            if self._current == MAX_WATERMARK:
                return None
            self._current = MAX_WATERMARK
            return MAX_WATERMARK
        if not active:
            # What idle channels have promised counts: the greatest of it is what the subtask knows.
            least = max(self._watermarks[number] for number in left)
            if least > self._current:
                self._current = least
                self._is_idle = self._owes_idle = True
                return least
            if self._is_idle:
                return None
            self._is_idle = True
            return IDLE
        least = min(active)
        was_idle, self._is_idle = self._is_idle, False
        if least > self._current:
            self._current = least
            return least
        return self._current if was_idle and self._current != _NOTHING_YET else None

"""Event time of a subtask: the least of its input channels, leaving out those that are idle."""

from __future__ import annotations

from snapline.runtime.items import IDLE

_NOTHING_YET = IDLE + 1


class WatermarkValve:
    """Takes the watermarks of every channel, and tells when that of the whole changes."""

    def __init__(self, channels: int) -> None:
        self._watermarks = [_NOTHING_YET] * channels
        self._idle = [False] * channels
        self._current = _NOTHING_YET
        self._is_idle = False

    @property
    def current_ms(self) -> int | None:
        """The watermark; none before the first."""
        return None if self._current == _NOTHING_YET else self._current

    def advance(self, channel: int, watermark: int) -> int | None:
        """A channel brings a watermark, or `IDLE`: what the subtask has to pass on, if anything."""
        if watermark == IDLE:
            self._idle[channel] = True
        else:
            self._idle[channel] = False
            self._watermarks[channel] = max(watermark, self._watermarks[channel])
        return self._changed()

    def end(self, channel: int) -> int | None:
        """A channel has ended: nothing of it is to be waited for."""
        return self.advance(channel, IDLE)

    def _changed(self) -> int | None:
        active = [mark for mark, is_idle in zip(self._watermarks, self._idle, strict=True) if not is_idle]
        if not active:
            # What idle channels have promised counts: the greatest of it is what the subtask knows.
            least = max(self._watermarks)
            if least > self._current:
                self._current = least
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

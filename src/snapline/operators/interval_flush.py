"""Results that are held back and emitted at an interval of processing time."""

from __future__ import annotations

from abc import abstractmethod

from snapline.contracts.operator import Operator


class IntervalFlush(Operator):
    """Emits what it holds back when its interval is over, ahead of every barrier, and at the end."""

    _flush_at_ms: int | None = None

    @abstractmethod
    def _emit_held(self) -> None:
        """Emit what is held back, if anything."""

    def _flush_within(self, every_ms: int) -> None:
        """Something is held back: flush it when an interval that began with the first such call is over."""
        if self._flush_at_ms is None:
            self._flush_at_ms = self.context.clock() + every_ms

    def _flush(self) -> None:
        self._flush_at_ms = None
        self._emit_held()

    def next_wakeup_ms(self) -> int | None:
        return self._flush_at_ms

    def wakeup(self, now_ms: int) -> None:
        if self._flush_at_ms is not None and now_ms >= self._flush_at_ms:
            self._flush()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._flush()

    def finish(self) -> None:
        self._flush()

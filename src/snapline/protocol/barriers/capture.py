"""Which in-flight input data belongs to an unaligned checkpoint, channel by channel."""

from __future__ import annotations

from enum import Enum

from snapline.protocol.machine import TransitionTable
from snapline.types import NO_CHECKPOINT


class ChannelCapture(Enum):
    """The state of one input channel with regard to its newest barrier."""

    COMPLETED = "COMPLETED"
    BARRIER_PENDING = "BARRIER_PENDING"
    BARRIER_RECEIVED = "BARRIER_RECEIVED"


_C = ChannelCapture
CAPTURE = TransitionTable(
    "In-flight capture of one input channel",
    "Data that arrives ahead of a pending barrier is written to the checkpoint; data behind it is not.",
    _C.COMPLETED,
    [
        (_C.COMPLETED, "checkpoint started", _C.BARRIER_PENDING),
        (_C.COMPLETED, "barrier arrived", _C.BARRIER_RECEIVED),
        (_C.BARRIER_PENDING, "checkpoint started", _C.BARRIER_PENDING),
        (_C.BARRIER_PENDING, "barrier arrived", _C.BARRIER_RECEIVED),
        (_C.BARRIER_PENDING, "checkpoint stopped", _C.COMPLETED),
        (_C.BARRIER_RECEIVED, "checkpoint started", _C.BARRIER_PENDING),
        (_C.BARRIER_RECEIVED, "barrier arrived", _C.BARRIER_RECEIVED),
        (_C.BARRIER_RECEIVED, "checkpoint stopped", _C.COMPLETED),
    ],
)


class InputCapture:
    """Per-channel capture status of one subtask.

    On `start(n)` the shell writes what is queued ahead of barrier n, or the whole queue where that barrier has not
    arrived. From then on it asks `is_capturing` for each arriving data buffer.
    """

    def __init__(self, channels: int) -> None:
        self._status = [ChannelCapture.COMPLETED] * channels
        self._last_barrier = [NO_CHECKPOINT] * channels

    def is_capturing(self, channel: int) -> bool:
        """Whether a data buffer that arrives on `channel` now is part of the running checkpoint."""
        return self._status[channel] is ChannelCapture.BARRIER_PENDING

    def is_subsumed(self, checkpoint_id: int) -> bool:
        """Whether a channel already has a newer barrier, so that it is too late to capture for this id."""
        return any(
            status is ChannelCapture.BARRIER_RECEIVED and last > checkpoint_id
            for status, last in zip(self._status, self._last_barrier, strict=True)
        )

    def start(self, checkpoint_id: int) -> None:
        """Begins capturing on every channel without this barrier. Not called when `is_subsumed`."""
        for channel, last in enumerate(self._last_barrier):
            if last < checkpoint_id:
                self._last_barrier[channel] = checkpoint_id
                self._step(channel, "checkpoint started")

    def barrier_arrived(self, channel: int, checkpoint_id: int) -> None:
        """Notes a barrier as soon as it is in the channel's queue. Older and repeated barriers change nothing."""
        last, status = self._last_barrier[channel], self._status[channel]
        if checkpoint_id < last or (checkpoint_id == last and status is not ChannelCapture.BARRIER_PENDING):
            return
        self._last_barrier[channel] = checkpoint_id
        self._step(channel, "barrier arrived")

    def stop(self, checkpoint_id: int) -> None:
        """Ends capturing for `checkpoint_id`. Channels that have gone on to a newer one stay as they are."""
        for channel, last in enumerate(self._last_barrier):
            if last == checkpoint_id and self._status[channel] is not ChannelCapture.COMPLETED:
                self._step(channel, "checkpoint stopped")

    def _step(self, channel: int, cause: str) -> None:
        self._status[channel] = CAPTURE.step(self._status[channel], cause)

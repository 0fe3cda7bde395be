"""Whether the coordinator takes checkpoints."""

from __future__ import annotations

from enum import Enum

from snapline.protocol.machine import TransitionTable


class Activity(Enum):
    """Whether the coordinator takes checkpoints."""

    WAITING = "WAITING"
    ACTIVE = "ACTIVE"
    STOPPING = "STOPPING"
    CLOSED = "CLOSED"


_A = Activity
ACTIVITY = TransitionTable(
    "Checkpoint coordinator",
    "Each attempt has its own coordinator. While the job stops with a savepoint, nothing else is triggered.",
    _A.WAITING,
    [
        (_A.WAITING, "all tasks running", _A.ACTIVE),
        (_A.ACTIVE, "stop with savepoint", _A.STOPPING),
        (_A.STOPPING, "savepoint failed", _A.ACTIVE),
        (_A.WAITING, "job left running", _A.CLOSED),
        (_A.ACTIVE, "job left running", _A.CLOSED),
        (_A.STOPPING, "job left running", _A.CLOSED),
        (_A.CLOSED, "job left running", _A.CLOSED),
    ],
)

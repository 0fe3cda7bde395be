"""Why a checkpoint took its time, in a sentence: its critical path, and the subtask that is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class SlowCause(Enum):
    """What made a checkpoint slow, or fail."""

    NOTHING = "nothing"
    BACK_PRESSURE = "back-pressure"
    HUNG_OPERATOR = "hung operator"
    SKEW = "skew"
    SLOW_STORAGE = "slow storage"
    LONG_SYNCHRONOUS_PART = "long synchronous part"
    STATE_GROWTH = "state growth"
    LARGE_STATE = "large state"
    FAILING_COMMITS = "failing commits"
    DRIVER = "driver"
    FAILED = "failed"


class PathPart(Enum):
    """A part of the way of a checkpoint through one subtask, or on the driver.

    PREPARATION is on the driver before tasks are triggered: operator coordinators and hooks. ACKNOWLEDGEMENT is from
    the end of the asynchronous part until the driver has heard of it. COMPLETION is on the driver too: metadata and
    journal.
    """

    PREPARATION = "preparation"
    START_DELAY = "start delay"
    ALIGNMENT = "alignment"
    SYNCHRONOUS = "synchronous"
    ASYNCHRONOUS = "asynchronous"
    ACKNOWLEDGEMENT = "acknowledgement"
    COMPLETION = "completion"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of the critical path; times are from the trigger on. `vertex` is empty for the driver."""

    part: PathPart
    vertex: str
    subtask: int | None
    from_ms: int
    to_ms: int

    @property
    def duration_ms(self) -> int:
        return self.to_ms - self.from_ms


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a checkpoint took its time, or takes it.

    `sentence` says what was slow and names the subtask that is to blame, which `vertex` and `subtask` are too: not the
    one that had to wait. `advice` is what to change. `path` is the critical path: each step begins where the one before
    ends.
    """

    checkpoint_id: int
    cause: SlowCause
    sentence: str
    advice: str = ""
    vertex: str = ""
    subtask: int | None = None
    path: tuple[PathStep, ...] = ()

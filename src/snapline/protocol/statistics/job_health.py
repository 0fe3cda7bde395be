"""Whether a job is healthy, in one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class HealthLevel(Enum):
    """How bad it is."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class HealthIssue(Enum):
    """What is not as it should be."""

    NOT_RUNNING = "not running"
    RESTART_LOOP = "restart loop"
    CHECKPOINTS_FAIL = "checkpoints fail"
    NO_CHECKPOINT = "no checkpoint"
    FAILING_COMMITS = "failing commits"
    HUNG_OPERATOR = "hung operator"
    GROWING_STATE = "growing state"
    IDLE_SOURCE = "idle source"
    EVENT_TIME_STANDS_STILL = "event time stands still"
    BACK_PRESSURE = "back-pressure"


@dataclass(frozen=True, slots=True)
class HealthNote:
    """One thing that is wrong, and what to do."""

    level: HealthLevel
    issue: HealthIssue
    text: str
    advice: str = ""
    vertex: str = ""
    subtask: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a job: `line` says it in one line; `notes` are the worst first."""

    level: HealthLevel
    line: str
    notes: tuple[HealthNote, ...] = ()


HEALTHY = Health(HealthLevel.GOOD, "healthy")

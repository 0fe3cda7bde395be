"""What a job reports about its checkpoints and tasks; users reach it as `snapline.statistics`."""

from snapline.protocol.statistics.checkpoint_records import (
    CheckpointCounts,
    CheckpointRecord,
    CheckpointStatus,
    CheckpointType,
    CompletedSummary,
    Completion,
    Failure,
    LatestCheckpoints,
    RestoredCheckpoint,
    StatisticsSnapshot,
    SubtaskMetrics,
    SubtaskStatistics,
    Totals,
    VertexStatistics,
    VertexSummary,
)
from snapline.protocol.statistics.explanation import Explanation, PathPart, PathStep, SlowCause
from snapline.protocol.statistics.job_health import Health, HealthIssue, HealthLevel, HealthNote
from snapline.protocol.statistics.job_view import (
    AttemptFailure,
    EdgeView,
    JobView,
    OperatorView,
    PlanView,
    SubtaskView,
    VertexView,
)
from snapline.protocol.statistics.progress import Progress
from snapline.protocol.statistics.summary import Summary
from snapline.protocol.statistics.task_metrics import CommitFigures, TaskMetrics

__all__ = [
    "AttemptFailure",
    "CheckpointCounts",
    "CheckpointRecord",
    "CheckpointStatus",
    "CheckpointType",
    "CommitFigures",
    "CompletedSummary",
    "Completion",
    "EdgeView",
    "Explanation",
    "Failure",
    "Health",
    "HealthIssue",
    "HealthLevel",
    "HealthNote",
    "JobView",
    "LatestCheckpoints",
    "OperatorView",
    "PathPart",
    "PathStep",
    "PlanView",
    "Progress",
    "RestoredCheckpoint",
    "SlowCause",
    "StatisticsSnapshot",
    "SubtaskMetrics",
    "SubtaskStatistics",
    "SubtaskView",
    "Summary",
    "TaskMetrics",
    "Totals",
    "VertexStatistics",
    "VertexSummary",
    "VertexView",
]

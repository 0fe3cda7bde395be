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
from snapline.protocol.statistics.progress import Progress
from snapline.protocol.statistics.summary import Summary
from snapline.protocol.statistics.task_metrics import TaskMetrics

__all__ = [
    "CheckpointCounts",
    "CheckpointRecord",
    "CheckpointStatus",
    "CheckpointType",
    "CompletedSummary",
    "Completion",
    "Failure",
    "LatestCheckpoints",
    "Progress",
    "RestoredCheckpoint",
    "StatisticsSnapshot",
    "SubtaskMetrics",
    "SubtaskStatistics",
    "Summary",
    "TaskMetrics",
    "Totals",
    "VertexStatistics",
    "VertexSummary",
]

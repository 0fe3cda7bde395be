from __future__ import annotations

import json
from typing import Any

from snapline.config import Checkpoints
from snapline.devtools.kit.sample_views import STARTED_MS, sample_plan, sample_record, sample_statistics, sample_view
from snapline.types import SnapshotKind
from snapline.web import flink_checkpoints
from snapline.web.job_board import encode
from snapline.web.rest_ids import hex_id

STATISTICS = {"min", "max", "avg", "p50", "p90", "p95", "p99", "p999"}


def shape(value: Any) -> Any:
    return json.loads(encode(value))


def test_a_completed_checkpoint() -> None:
    found = shape(flink_checkpoints.checkpoint(sample_record(4)))
    assert found == {
        "className": "completed",
        "id": 4,
        "status": "COMPLETED",
        "is_savepoint": False,
        "savepointFormat": None,
        "trigger_timestamp": STARTED_MS + 4000,
        "latest_ack_timestamp": STARTED_MS + 4102,
        "checkpointed_size": 6004,
        "state_size": 12004,
        "end_to_end_duration": 102,
        "alignment_buffered": 0,
        "processed_data": 60,
        "persisted_data": 120,
        "num_subtasks": 6,
        "num_acknowledged_subtasks": 6,
        "checkpoint_type": "CHECKPOINT",
        "tasks": {},
        "external_path": "/data/clicks/chk-4",
        "discarded": False,
    }


def test_other_checkpoints() -> None:
    running = shape(flink_checkpoints.checkpoint(sample_record(4, running=True)))
    assert (running["className"], running["status"]) == ("in_progress", "IN_PROGRESS")
    assert "external_path" not in running
    failed = shape(flink_checkpoints.checkpoint(sample_record(4, failed=True)))
    assert (failed["className"], failed["failure_timestamp"]) == ("failed", STARTED_MS + 4500)
    assert failed["failure_message"] == "CHECKPOINT_EXPIRED: subtask clicks/0 was slow"
    savepoint = shape(flink_checkpoints.checkpoint(sample_record(4, kind=SnapshotKind.SYNC_SAVEPOINT)))
    assert (savepoint["is_savepoint"], savepoint["savepointFormat"]) == (True, "CANONICAL")
    assert savepoint["checkpoint_type"] == "SYNC_SAVEPOINT"


def test_details_have_every_vertex_of_the_job() -> None:
    plan = sample_plan({"clicks": 2, "new": 5})
    found = shape(flink_checkpoints.checkpoint_details(sample_record(4, {"clicks": 2, "gone": 1}), plan.vertices))
    assert set(found["tasks"]) == {hex_id("clicks"), hex_id("new"), hex_id("gone")}
    assert found["tasks"][hex_id("clicks")] == {
        "id": 4,
        "status": "COMPLETED",
        "latest_ack_timestamp": STARTED_MS + 4101,
        "checkpointed_size": 2001,
        "state_size": 4001,
        "end_to_end_duration": 101,
        "alignment_buffered": 0,
        "processed_data": 20,
        "persisted_data": 40,
        "num_subtasks": 2,
        "num_acknowledged_subtasks": 2,
    }
    assert found["tasks"][hex_id("new")]["num_subtasks"] == 0
    assert found["tasks"][hex_id("new")]["end_to_end_duration"] == -1


def test_the_part_of_a_vertex() -> None:
    found = shape(flink_checkpoints.vertex_part(sample_record(4, running=True), "per-user"))
    assert set(found["summary"]) == {
        "checkpointed_size",
        "state_size",
        "end_to_end_duration",
        "checkpoint_duration",
        "alignment",
        "start_delay",
    }
    assert set(found["summary"]["alignment"]) == {"buffered", "processed", "persisted", "duration"}
    assert set(found["summary"]["checkpoint_duration"]) == {"sync", "async"}
    assert set(found["summary"]["start_delay"]) == STATISTICS
    assert found["subtasks"][1] == {
        "className": "completed",
        "index": 1,
        "status": "completed",
        "ack_timestamp": STARTED_MS + 4101,
        "end_to_end_duration": 101,
        "checkpointed_size": 1001,
        "state_size": 2001,
        "checkpoint": {"sync": 1, "async": 2},
        "alignment": {"buffered": 0, "processed": 10, "persisted": 20, "duration": 3},
        "start_delay": 4,
        "unaligned_checkpoint": False,
        "aborted": False,
    }
    assert found["subtasks"][2] == {"className": "pending", "index": 2, "status": "pending_or_failed"}
    assert flink_checkpoints.vertex_part(sample_record(4), "none").subtasks == []


def test_the_rest_of_the_statistics() -> None:
    statistics = sample_statistics(4)
    assert shape(flink_checkpoints.counts(statistics)) == {
        "restored": 1,
        "total": 4,
        "in_progress": 1,
        "completed": 2,
        "failed": 1,
    }
    summary = shape(flink_checkpoints.completed_statistics(statistics))
    assert set(summary) == {
        "checkpointed_size",
        "state_size",
        "end_to_end_duration",
        "alignment_buffered",
        "processed_data",
        "persisted_data",
    }
    assert all(set(found) == STATISTICS for found in summary.values())
    assert shape(flink_checkpoints.restored(statistics.latest.restored)) == {
        "id": 7,
        "restore_timestamp": STARTED_MS,
        "is_savepoint": True,
        "external_path": "/data/savepoints/7",
    }
    assert flink_checkpoints.restored(None) is None


def test_settings_of_checkpoints() -> None:
    found = shape(flink_checkpoints.checkpoint_configuration(sample_view()))
    assert (found["mode"], found["interval"], found["timeout"]) == ("exactly_once", 1000, 600_000)
    assert found["externalization"] == {"enabled": True, "delete_on_cancellation": False}
    assert (found["state_backend"], found["checkpoint_storage"]) == (
        "HashMapStateBackend",
        "FileSystemCheckpointStorage",
    )
    assert found["tolerable_failed_checkpoints"] == 2147483647
    none = shape(flink_checkpoints.checkpoint_configuration(sample_view(settings=Checkpoints(tolerable_failures=2))))
    assert (none["interval"], none["tolerable_failed_checkpoints"]) == (9223372036854775807, 2)
    assert none["externalization"] == {"enabled": False, "delete_on_cancellation": True}
    assert none["checkpoint_storage"] == "JobManagerCheckpointStorage"

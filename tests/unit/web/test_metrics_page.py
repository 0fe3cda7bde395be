from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from snapline.devtools.kit.sample_views import STARTED_MS, sample_view
from snapline.protocol.statistics.job_view import JobView
from snapline.types import JobStatus
from snapline.web import metrics_page
from snapline.web.metrics_page import metrics_text


def samples(*views: JobView) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples; the parser refuses doubled names and broken lines."""
    found = [
        ((sample.name, tuple(sorted(sample.labels.items()))), sample.value)
        for family in text_string_to_metric_families(metrics_text(views).decode())
        for sample in family.samples
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def of_job(found: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str) -> float:
    return found[name, (("job", "clicks"),)]


def test_flinks_metrics_of_a_job() -> None:
    found = samples(sample_view(checkpoints=4))
    assert of_job(found, "snapline_job_last_checkpoint_duration_ms") == 102
    assert of_job(found, "snapline_job_last_checkpoint_size_bytes") == 6004
    assert of_job(found, "snapline_job_last_checkpoint_full_size_bytes") == 12004
    assert of_job(found, "snapline_job_last_checkpoint_metadata_size_bytes") == 1234
    assert of_job(found, "snapline_job_last_completed_checkpoint_id") == 3
    assert of_job(found, "snapline_job_last_checkpoint_completed_timestamp_ms") == STARTED_MS + 3300
    assert of_job(found, "snapline_job_last_checkpoint_restore_timestamp_ms") == STARTED_MS
    assert of_job(found, "snapline_job_last_checkpoint_processed_data_bytes") == 60
    assert of_job(found, "snapline_job_last_checkpoint_persisted_data_bytes") == 120
    assert of_job(found, "snapline_job_number_of_in_progress_checkpoints") == 1
    assert of_job(found, "snapline_job_number_of_completed_checkpoints") == 2
    assert of_job(found, "snapline_job_number_of_failed_checkpoints") == 1
    assert of_job(found, "snapline_job_total_number_of_checkpoints") == 4
    assert of_job(found, "snapline_job_restarts_total") == 1
    assert of_job(found, "snapline_job_uptime_ms") == 59_500
    assert of_job(found, "snapline_job_health") == 1
    assert found["snapline_job_info", (("job", "clicks"), ("name", "job clicks"))] == 1
    assert found["snapline_job_status", (("job", "clicks"), ("status", "RUNNING"))] == 1
    assert found["snapline_job_status", (("job", "clicks"), ("status", "FAILED"))] == 0
    reason = (("job", "clicks"), ("reason", "CHECKPOINT_EXPIRED"))
    assert found["snapline_job_failed_checkpoints_total", reason] == 1
    assert found["snapline_slot_memory_bytes", (("job", "clicks"), ("slot", "1"))] == 2 << 20
    assert found["snapline_slot_state_memory_bytes", (("job", "clicks"), ("slot", "0"))] == 3 << 10
    assert not any(name == "snapline_state_memory_limit_bytes" for name, _ in found)


def test_figures_of_subtasks() -> None:
    found = samples(sample_view(checkpoints=4))
    first = (("job", "clicks"), ("subtask", "1"), ("vertex", "clicks"))
    assert found["snapline_task_rows_in_total", first] == 101
    assert found["snapline_task_busy_ratio", first] == 0.601
    assert found["snapline_task_watermark_ms", first] == STARTED_MS + 1
    assert found["snapline_task_late_rows_total", first] == 1
    assert found["snapline_task_checkpoint_alignment_time_ms", first] == 3
    assert found["snapline_task_checkpoint_start_delay_ms", first] == 4
    waiting = [labels for name, labels in found if name == "snapline_task_waiting_commits"]
    assert waiting == [(("job", "clicks"), ("subtask", "0"), ("vertex", "out"))]


def test_a_large_job_shows_its_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "MAX_SUBTASKS", 5)
    found = samples(sample_view(checkpoints=4))
    clicks = (("job", "clicks"), ("subtask", ""), ("vertex", "clicks"))
    assert found["snapline_task_rows_in_total", clicks] == 201
    assert found["snapline_task_busy_ratio", clicks] == 0.601
    assert found["snapline_task_watermark_ms", clicks] == STARTED_MS
    assert found["snapline_task_checkpoint_start_delay_ms", clicks] == 4
    assert {dict(labels).get("subtask", "") for _, labels in found} == {""}


def test_a_job_without_figures_and_one_that_has_ended() -> None:
    view = sample_view(checkpoints=0)
    empty = replace(view, subtasks=tuple(replace(item, metrics=None) for item in view.subtasks))
    found = samples(empty, sample_view('odd "id"\n', status=JobStatus.FINISHED))
    assert ("snapline_job_last_completed_checkpoint_id", (("job", "clicks"),)) not in found
    assert found["snapline_job_uptime_ms", (("job", 'odd "id"\n'),)] == 0
    assert metrics_text([])

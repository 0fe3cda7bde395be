from __future__ import annotations

import json
from dataclasses import replace

from snapline.devtools.kit.sample_views import STARTED_MS, sample_view
from snapline.protocol.statistics.job_view import SubtaskView
from snapline.types import SubtaskId, TaskStatus
from snapline.web.job_board import encode
from snapline.web.own_shapes import by_vertex, events, job_now, job_row, share, vertex_status
from snapline.web.rest_ids import hex_id


def task(status: TaskStatus) -> SubtaskView:
    return SubtaskView(SubtaskId("a", 0), 1, status, 0, 0)


def test_a_job_in_a_list() -> None:
    row = json.loads(encode(job_row(sample_view())))
    assert row == {
        "job_id": "clicks",
        "jid": hex_id("clicks"),
        "name": "job clicks",
        "status": "RUNNING",
        "attempt": 2,
        "started_ms": STARTED_MS,
        "ended_ms": None,
        "health": {"level": "warning", "line": "a checkpoint failed"},
        "url": "http://127.0.0.1:4300/#/jobs/clicks",
    }


def test_a_job_at_one_moment() -> None:
    now = json.loads(encode(job_now(sample_view(), can_change=True, last_completed=None, last_failed=None)))
    assert now["status_times"] == {"CREATED": STARTED_MS, "RUNNING": STARTED_MS + 500}
    assert now["memory_bytes"] == {"0": 1 << 20, "1": 2 << 20}
    assert (now["state_memory_bytes"], now["state_memory_limit_bytes"]) == ({"0": 3 << 10}, None)
    assert now["failures"][0] == {
        "at_ms": STARTED_MS + 100,
        "attempt": 1,
        "cause": "ValueError: no",
        "trace": "trace",
        "log": "log",
        "subtask": "clicks/0",
        "repeats": 1,
    }
    assert now["health"]["notes"][0]["issue"] == "checkpoints fail"
    assert now["not_started"] == {"failure_ms": STARTED_MS, "reason": "IO_EXCEPTION", "message": "disk full"}
    assert (now["last_completed"], now["can_change"], now["is_live"]) == (None, True, True)


def test_the_plan_has_places_in_a_drawing() -> None:
    now = json.loads(encode(job_now(sample_view(), can_change=True, last_completed=None, last_failed=None)))
    places = [(vertex["id"], vertex["layer"], vertex["position"]) for vertex in now["plan"]["vertices"]]
    assert places == [("clicks", 0, 0), ("per-user", 1, 0), ("out", 2, 0)]
    assert now["plan"]["edges"][0] == {
        "source": "clicks",
        "target": "per-user",
        "partitioning": "HASH",
        "key_columns": ["user"],
        "output": "",
    }
    assert now["plan"]["vertices"][0]["operators"][0]["columns"] == [["user", "string"]]


def test_figures_of_a_vertex_are_those_of_its_subtasks() -> None:
    now = job_now(sample_view(), can_change=True, last_completed=None, last_failed=None)
    clicks = now.vertices["clicks"]
    assert (clicks.rows_in, clicks.rows_in_per_second, clicks.bytes_out) == (201, 20.0, 1800)
    assert (clicks.busy, clicks.idle, clicks.backpressured) == (0.601, 0.299, 0.1)
    assert (clicks.watermark_ms, clicks.slowest_split, clicks.stuck_ms) == (STARTED_MS, "split-0", 1)
    assert (clicks.waiting_commits, now.vertices["out"].waiting_commits) == (0, 1)
    first = clicks.subtasks[0]
    assert (first.index, first.host, first.latency_ms, first.last_bad_row, first.commit) == (
        0,
        "host-0",
        5,
        "no number",
        None,
    )
    commit = now.vertices["out"].subtasks[0].commit
    assert commit is not None
    assert (commit.waiting_ms, commit.retries, commit.last_problem) == (50, 2, "busy")


def test_a_job_that_has_reported_nothing() -> None:
    view = sample_view()
    silent = replace(view, subtasks=tuple(replace(item, metrics=None) for item in view.subtasks))
    now = job_now(silent, can_change=False, last_completed=None, last_failed=None)
    clicks = now.vertices["clicks"]
    assert (clicks.rows_in, clicks.busy, clicks.idle, clicks.watermark_ms) == (0, 0.0, 0.0, None)
    assert [row.status for row in clicks.subtasks] == [TaskStatus.RUNNING] * 2
    assert [subtasks for _, subtasks in by_vertex(replace(view, subtasks=()))] == [[], [], []]


def test_the_status_of_a_vertex() -> None:
    s = TaskStatus
    for statuses, expected in (
        ((s.RUNNING, s.FINISHED), s.RUNNING),
        ((s.FINISHED, s.FINISHED), s.FINISHED),
        ((s.CREATED, s.FINISHED), s.RUNNING),
        ((s.RUNNING, s.FAILED), s.FAILED),
        ((s.RUNNING, s.DEPLOYING), s.DEPLOYING),
        ((s.CANCELED, s.FINISHED), s.CANCELED),
        ((), s.CREATED),
    ):
        assert vertex_status([task(status) for status in statuses]) is expected


def test_events_after_a_moment() -> None:
    assert [event.at_ms for event in events(sample_view(), -1).events] == [STARTED_MS, STARTED_MS + 1000]
    assert [event.text for event in events(sample_view(), STARTED_MS).events] == ["checkpoint 1 failed"]


def test_a_share_stays_within_its_bounds() -> None:
    assert [share(part, 1000) for part in (-5, 0, 333, 1000, 1200)] == [0.0, 0.0, 0.333, 1.0, 1.0]
    assert share(0, 0) == 0.0

"""A job in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any, cast

import pytest

import snapline as sl
from snapline.api.handle_html import SHOWN_CHECKPOINTS, handle_html, view_html
from snapline.api.job_handle import JobHandle
from snapline.protocol.statistics.checkpoint_records import (
    CheckpointCounts,
    CheckpointRecord,
    Completion,
    Failure,
    StatisticsSnapshot,
    Totals,
)
from snapline.protocol.statistics.explanation import Explanation, SlowCause
from snapline.protocol.statistics.job_health import Health, HealthLevel
from snapline.protocol.statistics.job_view import AttemptFailure, JobView, PlanView
from snapline.testing import ThreadCluster
from snapline.types import FailureReason, JobStatus, SnapshotKind

NASTY = "</div><script>alert(1)</script>"


class _Text(HTMLParser):
    """The text of HTML, whose elements must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def record(number: int, **fields: Any) -> CheckpointRecord:
    totals = Totals(2, 2, 1_700_000_000_250, 4096)
    return CheckpointRecord(number, SnapshotKind.CHECKPOINT, None, 1_700_000_000_000, False, totals, (), **fields)


def view(**fields: Any) -> JobView:
    made = JobView(
        job_id="clicks",
        name="clicks",
        status=JobStatus.RUNNING,
        attempt=2,
        now_ms=1_700_000_060_000,
        started_ms=1_700_000_000_000,
        ended_ms=None,
        status_times={},
        plan=PlanView((), ()),
        subtasks=(),
        statistics=StatisticsSnapshot(),
        checkpoints=sl.Checkpoints(),
        execution=sl.Execution(),
        restart=sl.NoRestart(),
    )
    return replace(made, **fields)


def text_of(made: JobView) -> str:
    return " ".join(_Text(view_html(made)).texts)


def test_status_health_checkpoints_and_link() -> None:
    history = (
        record(9),
        record(8, failure=Failure(1_700_000_005_000, FailureReason.CHECKPOINT_EXPIRED, "too late")),
        *(record(number, completion=Completion(1_700_000_000_300, "/chk")) for number in range(7, 0, -1)),
    )
    made = view(
        url="http://127.0.0.1:4300/#/job/1",
        health=Health(HealthLevel.WARNING, "no checkpoint for 3 intervals"),
        statistics=StatisticsSnapshot(CheckpointCounts(total=9, completed=7, failed=1), history=history),
        explanations={7: Explanation(7, SlowCause.SKEW, "subtask 3 was slow")},
        failures=(AttemptFailure(0, 1, "KeyError: 'x'"),),
    )
    parsed = _Text(view_html(made))
    text = " ".join(parsed.texts)
    for part in (
        "RUNNING",
        "attempt 2 · runs for 60 s",
        "warning",
        "no checkpoint for 3 intervals",
        "attempt 1 failed: KeyError: 'x'",
        "7 checkpoints completed, 1 failed",
        "checkpoint 9 … in progress",
        "checkpoint 8 ✗ failed",
        "too late",
        "checkpoint 7 ✓ completed 2023-11-14T22:13:20Z 250 ms 4.1 kB subtask 3 was slow",
    ):
        assert part in text
    assert text.count("2023-11-14T22:13:20Z") == SHOWN_CHECKPOINTS
    assert parsed.links == ["http://127.0.0.1:4300/#/job/1"]


def test_no_link_without_a_page_and_never_a_token() -> None:
    assert _Text(view_html(view(url=""))).links == []
    assert _Text(view_html(view(url="javascript:alert(1)"))).links == []
    html = view_html(view(url="http://127.0.0.1:4300/?token=secret#/job/1"))
    assert "secret" not in html
    assert _Text(html).links == ["http://127.0.0.1:4300/#/job/1"]


def test_everything_is_escaped() -> None:
    made = view(
        name=NASTY,
        health=Health(HealthLevel.BAD, NASTY),
        failures=(AttemptFailure(0, 1, NASTY * 100),),
        statistics=StatisticsSnapshot(
            history=(record(1, failure=Failure(0, FailureReason.CHECKPOINT_EXPIRED, NASTY)),)
        ),
        url=f'http://x/"{NASTY}',
    )
    assert "script" not in _Text(view_html(made)).seen


@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("level", HealthLevel)
def test_every_status_and_level_can_be_shown(status: JobStatus, level: HealthLevel) -> None:
    assert status.value in text_of(view(status=status, health=Health(level, "line")))


def test_an_ended_job_ran() -> None:
    made = view(status=JobStatus.FINISHED, ended_ms=1_700_000_030_000)
    assert "ran for 30 s" in text_of(made)


class _Broken:
    def view(self) -> JobView:
        raise RuntimeError(NASTY)

    def __repr__(self) -> str:
        return "<JobHandle 'x'>"


def test_it_never_raises() -> None:
    parsed = _Text(handle_html(cast(JobHandle, _Broken())))
    assert parsed.texts == ["<JobHandle 'x'>", f"RuntimeError: {NASTY}"]
    assert parsed.seen == ["div", "br"]


def test_the_handle_of_a_job_in_this_process() -> None:
    job = sl.Job("clicks")
    job.source(sl.sources.Rate(rows=10), uid="rows").sink(sl.sinks.Foreach(str), uid="out")
    handle = cast(Any, job.start(ThreadCluster()))
    assert handle.wait("30s") is JobStatus.FINISHED
    assert "FINISHED" in " ".join(_Text(handle._repr_html_()).texts)

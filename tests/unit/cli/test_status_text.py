"""A job at one moment as text: what went wrong is there."""

from __future__ import annotations

import pytest
from tests.unit.cli.cli_kit import NOW_MS, StubServer, checkpoint_row, job_now

from snapline.cli.status_text import print_status

Output = pytest.CaptureFixture[str]


def test_checkpoints_that_fail_or_do_not_start(server: StubServer, capsys: Output) -> None:
    failure = {"failure_ms": NOW_MS - 2000, "reason": "IO_EXCEPTION", "message": "cannot write /chk/x: read-only"}
    print_status(
        job_now(
            server,
            counts={"restored": 1, "total": 1400, "in_progress": 1, "completed": 1397, "failed": 2},
            last_failed=checkpoint_row(13, status="FAILED", failure=failure),
            not_started={**failure, "failure_ms": NOW_MS - 1000, "message": "the storage does not answer"},
        )
    )
    text = capsys.readouterr().out
    assert "checkpoints: 1,397 completed, 2 failed, 1 in progress\n" in text
    assert "  last completed: 12, 5 s ago (took 140 ms, 1.2 MB)\n" in text
    assert "  last failed: 13, 2 s ago: IO_EXCEPTION: cannot write /chk/x: read-only\n" in text
    assert "  could not start, 1 s ago: IO_EXCEPTION: the storage does not answer\n" in text


def test_the_last_failure(server: StubServer, capsys: Output) -> None:
    failed = {
        "at_ms": NOW_MS - 3000,
        "attempt": 4,
        "cause": "UserCodeError: map 'price' raised KeyError\x1b[31m",
        "trace": "",
        "log": "",
        "subtask": "price/1",
        "repeats": 3,
    }
    print_status(job_now(server, status="RESTARTING", attempt=5, failed_attempts=4, failures=[failed], name="Clicks"))
    text = capsys.readouterr().out
    assert text.startswith("Clicks (id clicks): RESTARTING for 90 s, attempt 5\n")
    assert "failed attempts: 4\n  last: attempt 4 in price/1, 3 s ago, 3 times in a row: UserCodeError: map" in text
    assert "\x1b" not in text


def test_vertices_with_their_rates(server: StubServer, capsys: Output) -> None:
    job = job_now(server)
    job["vertices"]["rows"]["watermark_ms"] = NOW_MS
    job["plan"]["vertices"].append({"id": "out", "name": "write", "parallelism": 1})
    print_status(job)
    *_, heading, rows, out = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["vertex", "parallelism", "status"]
    assert " ".join(rows.split()) == "rows 2 RUNNING 0 20,134 25 % 5 % 70 % 2027-01-15T08:00:00Z"
    assert out.startswith("out (write)")


def test_a_job_that_has_ended_or_is_only_stored(server: StubServer, capsys: Output) -> None:
    print_status(job_now(server, status="FINISHED", ended_ms=NOW_MS - 5000, is_live=False, url=""))
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert (first, second) == ("clicks: FINISHED 5 s ago (from its storage: no driver runs it)", "healthy")

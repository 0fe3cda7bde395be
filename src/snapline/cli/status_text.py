"""A job at one moment as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from snapline.cli.terminal_output import print_table, say
from snapline.text import duration_text, size_text, time_text

Document: TypeAlias = Mapping[str, Any]

_STYLES = {"good": "green", "warning": "yellow", "bad": "bold red"}


def print_status(job: Document) -> None:
    """Print the document of `GET /snapline/jobs/:job`."""
    say(_headline(job), "bold")
    if job.get("url"):
        say(job["url"])
    _print_health(job.get("health") or {})
    _print_checkpoints(job)
    _print_failures(job)
    say("")
    _print_vertices(job)


def _headline(job: Document) -> str:
    name = job["name"] if job["name"] == job["job_id"] else f"{job['name']} (id {job['job_id']})"
    ended_ms, now_ms, status = job.get("ended_ms"), job["now_ms"], job["status"]
    since_ms = ended_ms or (job.get("status_times") or {}).get(status) or job["started_ms"]
    when = f"{duration_text(max(now_ms - since_ms, 0))} ago" if ended_ms else f"for {_span(now_ms - since_ms)}"
    attempt = f", attempt {job['attempt']}" if job["attempt"] != 1 else ""
    live = "" if job.get("is_live", True) else " (from its storage: no driver runs it)"
    return f"{name}: {status} {when}{attempt}{live}"


def _print_health(health: Document) -> None:
    level = health.get("level", "")
    say(f"{level}: {health.get('line', '')}" if level != "good" else health.get("line", ""), _STYLES.get(level, ""))
    for note in health.get("notes") or ():
        advice = f" -> {note['advice']}" if note.get("advice") else ""
        say(f"  - {note['text']}{advice}", _STYLES.get(note.get("level", ""), ""))


def _print_checkpoints(job: Document) -> None:
    counts, now_ms = job.get("counts") or {}, job["now_ms"]
    parts = [f"{counts.get(name, 0):,} {name.replace('_', ' ')}" for name in ("completed", "failed", "in_progress")]
    say(f"checkpoints: {', '.join(parts)}")
    if completed := job.get("last_completed"):
        size = size_text(completed.get("checkpointed_bytes") or 0)
        took = duration_text(max(completed.get("end_to_end_duration_ms") or 0, 0))
        at_ms = completed.get("completed_ms") or completed["trigger_ms"]
        say(f"  last completed: {completed['id']}, {_span(now_ms - at_ms)} ago (took {took}, {size})")
    if failed := job.get("last_failed"):
        why = failed.get("failure") or {}
        at_ms = why.get("failure_ms") or failed["trigger_ms"]
        say(f"  last failed: {failed['id']}, {_span(now_ms - at_ms)} ago: {_reason(why)}")
    if not_started := job.get("not_started"):
        at_ms = not_started.get("failure_ms") or now_ms
        say(f"  could not start, {_span(now_ms - at_ms)} ago: {_reason(not_started)}")


def _print_failures(job: Document) -> None:
    failures = job.get("failures") or ()
    if not failures:
        return
    last = failures[0]
    where = f" in {last['subtask']}" if last.get("subtask") else ""
    repeats = f", {last['repeats']} times in a row" if (last.get("repeats") or 0) > 1 else ""
    count = job.get("failed_attempts") or len(failures)
    say(f"failed attempts: {count}")
    ago = _span(job["now_ms"] - last["at_ms"])
    say(f"  last: attempt {last['attempt']}{where}, {ago} ago{repeats}: {last['cause']}")


def _print_vertices(job: Document) -> None:
    shown = job.get("vertices") or {}
    rows = []
    for vertex in (job.get("plan") or {}).get("vertices") or ():
        figures = shown.get(vertex["id"]) or {}
        rates = [f"{figures.get(f'rows_{side}_per_second') or 0:,.0f}" for side in ("in", "out")]
        shares = [f"{100 * (figures.get(name) or 0):.0f} %" for name in ("busy", "backpressured", "idle")]
        watermark_ms = figures.get("watermark_ms")
        event_time = "" if watermark_ms is None else time_text(watermark_ms)
        name = vertex["name"] if vertex["name"] == vertex["id"] else f"{vertex['id']} ({vertex['name']})"
        status = figures.get("status") or ""
        rows.append((name, str(vertex["parallelism"]), status, *rates, *shares, event_time))
    columns = ("vertex", "parallelism", "status", "rows/s in", "rows/s out", "busy", "back-pressured", "idle")
    print_table((*columns, "event time"), rows)


def _reason(failure: Document) -> str:
    return ": ".join(text for text in (failure.get("reason") or "", failure.get("message") or "") if text)


def _span(duration_ms: float) -> str:
    return duration_text(max(duration_ms, 0))

"""A job in a notebook: status, health, the last checkpoints, and a link to its page.

Plain HTML with styles of its own, in the colours of the notebook. It is stored with the notebook, so it has no secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import urlsplit, urlunsplit

from snapline.api.job_handle import JobHandle
from snapline.protocol.statistics.checkpoint_records import CheckpointRecord, CheckpointStatus
from snapline.protocol.statistics.job_health import HealthLevel
from snapline.protocol.statistics.job_view import JobView
from snapline.text import duration_text, size_text, time_text
from snapline.types import JobStatus

SHOWN_CHECKPOINTS = 5
MAX_CAUSE_CHARACTERS = 300

# Backgrounds of white text, so that they do not depend on the colours of the notebook.
_GREEN, _AMBER, _RED, _GREY = "#15803d", "#a16207", "#dc2626", "#6b7280"
_STATUS_COLOURS = {JobStatus.RUNNING: _GREEN, JobStatus.FINISHED: _GREEN, JobStatus.FAILED: _RED}
_HEALTH_COLOURS = {HealthLevel.GOOD: _GREEN, HealthLevel.WARNING: _AMBER, HealthLevel.BAD: _RED}
_CHECKPOINT_MARKS = {CheckpointStatus.COMPLETED: "✓", CheckpointStatus.FAILED: "✗", CheckpointStatus.IN_PROGRESS: "…"}
_CARD = (
    "border:1px solid #80808080;border-radius:6px;padding:10px 14px;max-width:60em;"
    "font-family:system-ui,sans-serif;font-size:13px;line-height:1.5"
)
_CELL = "padding:1px 14px 1px 0;text-align:left"


def handle_html(handle: JobHandle) -> str:
    """The job as it is now. Never raises: what cannot be shown is said so."""
    try:
        view = handle.view()
    except Exception as error:
        return f'<div style="{_CARD}">{escape(repr(handle))}<br>{escape(f"{type(error).__name__}: {error}")}</div>'
    return view_html(view)


def view_html(view: JobView) -> str:
    """The same for a view."""
    parts = [_head(view), _health(view), _last_failure(view), _checkpoints(view)]
    return f'<div style="{_CARD}">{"".join(parts)}</div>'


def _head(view: JobView) -> str:
    is_over = view.ended_ms is not None
    end_ms = view.now_ms if view.ended_ms is None else view.ended_ms
    facts = [
        f"attempt {view.attempt}",
        f"{'ran' if is_over else 'runs'} for {duration_text(max(end_ms - view.started_ms, 0))}",
        f"at {time_text(view.now_ms)}",
    ]
    status = _badge(view.status.value, _STATUS_COLOURS.get(view.status, _GREY))
    return f"<div><b>{escape(view.name)}</b> {status} {escape(' · '.join(facts))}{_link(view.url)}</div>"


def _link(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        return ""
    without_token = urlunsplit(urlsplit(url)._replace(query=""))
    return f' · <a href="{escape(without_token)}" target="_blank" rel="noopener">page</a>'


def _badge(text: str, colour: str) -> str:
    style = f"background:{colour};color:#fff;border-radius:9px;padding:1px 8px;font-weight:600;font-size:12px"
    return f'<span style="{style}">{escape(text)}</span>'


def _health(view: JobView) -> str:
    level = view.health.level
    return f"<div>{_badge(level.value, _HEALTH_COLOURS[level])} {escape(view.health.line)}</div>"


def _last_failure(view: JobView) -> str:
    if not view.failures:
        return ""
    last = view.failures[0]
    cause = last.cause if len(last.cause) <= MAX_CAUSE_CHARACTERS else f"{last.cause[:MAX_CAUSE_CHARACTERS]}…"
    return f"<div>attempt {last.attempt} failed: {escape(cause)}</div>"


def _checkpoints(view: JobView) -> str:
    counts = view.statistics.counts
    total = f"{counts.completed} checkpoints completed, {counts.failed} failed"
    shown = view.statistics.history[:SHOWN_CHECKPOINTS]
    if not shown:
        return f"<div>{total}</div>"
    heads = _cells("th", ("", "status", "triggered", "took", "size", "why"))
    rows = "".join(_row(view, record) for record in shown)
    return (
        f'<div>{total}</div><table style="border-collapse:collapse;font-size:12px;margin:6px 0 0">'
        f"<thead>{heads}</thead><tbody>{rows}</tbody></table>"
    )


def _row(view: JobView, record: CheckpointRecord) -> str:
    took = "" if record.end_to_end_duration_ms < 0 else duration_text(record.end_to_end_duration_ms)
    explained = view.explanations.get(record.id)
    why = "" if explained is None else explained.sentence
    if record.failure is not None:
        why = why or record.failure.message or record.failure.reason.value
    status = f"{_CHECKPOINT_MARKS[record.status]} {record.status.value.replace('_', ' ').lower()}"
    kind = "savepoint" if record.kind.is_savepoint else "checkpoint"
    size = size_text(record.totals.checkpointed_bytes)
    cells = (f"{kind} {record.id}", status, time_text(record.trigger_ms), took, size, why)
    return _cells("td", cells)


def _cells(tag: str, texts: Iterable[str]) -> str:
    cells = "".join(f'<{tag} style="{_CELL}">{escape(text)}</{tag}>' for text in texts)
    return f"<tr>{cells}</tr>"

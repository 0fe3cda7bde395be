"""Checkpoints as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from snapline.cli.terminal_output import make_table
from snapline.text import duration_text, size_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

Row: TypeAlias = Mapping[str, Any]

COLUMNS = ("id", "kind", "status", "triggered at", "took", "subtasks", "written", "state", "why")

_PARTS = ("start_delay", "alignment", "sync", "async", "commit")


def history_table(rows: Iterable[Row], now_ms: int | None = None) -> Table:
    """Rows of checkpoints, as they are in the given order. `now_ms` says how long those in progress have taken."""
    return make_table(COLUMNS, [history_cells(row, now_ms) for row in rows])


def history_cells(row: Row, now_ms: int | None = None) -> Sequence[str]:
    took_ms = row.get("end_to_end_duration_ms")
    if row["status"] == "IN_PROGRESS" and now_ms is not None:
        took_ms = max(now_ms - row["trigger_ms"], 0)
    kind = str(row.get("type") or row["kind"]).lower().replace("_", " ")
    return (
        str(row["id"]),
        f"{kind}, {row['savepoint_format'].lower()}" if row.get("savepoint_format") else kind,
        row["status"].lower().replace("_", " ") + (", deleted" if row.get("discarded") else ""),
        time_text(row["trigger_ms"], "milliseconds"),
        _duration(took_ms),
        f"{row['acknowledged']}/{row['subtasks']}",
        size_text(row.get("checkpointed_bytes") or 0),
        size_text(row.get("state_bytes") or 0),
        _why(row),
    )


def _why(row: Row) -> str:
    if failure := row.get("failure"):
        return ": ".join(text for text in (failure.get("reason") or "", failure.get("message") or "") if text)
    explanation = row.get("explanation") or {}
    if explanation.get("cause") in (None, "nothing"):
        return ""
    return " -> ".join(text for text in (explanation.get("sentence"), explanation.get("advice")) if text)


def vertices_table(vertices: Iterable[Row]) -> Table:
    """How long each part of a checkpoint took in each vertex: the longest of its subtasks."""
    rows = []
    for vertex in vertices:
        subtasks = vertex.get("subtasks") or ()
        acknowledged = sum(bool(it.get("acknowledged")) for it in subtasks)
        parts = [max((it.get(f"{part}_ms", -1) for it in subtasks), default=-1) for part in _PARTS]
        slowest = max(subtasks, key=lambda it: it.get("end_to_end_duration_ms", -1), default=None)
        rows.append(
            (
                vertex["id"],
                f"{acknowledged}/{len(subtasks)}",
                *(_duration(part_ms) for part_ms in parts),
                size_text(sum(max(it.get("checkpointed_bytes") or 0, 0) for it in subtasks)),
                size_text(sum(max(it.get("state_bytes") or 0, 0) for it in subtasks)),
                "" if slowest is None else str(slowest["index"]),
            )
        )
    parts_of = tuple(part.replace("_", " ") for part in _PARTS)
    return make_table(("vertex", "subtasks", *parts_of, "written", "state", "slowest subtask"), rows)


def _duration(duration_ms: float | None) -> str:
    return "" if duration_ms is None or duration_ms < 0 else duration_text(duration_ms)

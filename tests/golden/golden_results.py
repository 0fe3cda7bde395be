"""Reads the output of the golden job, and what its snapshots contain."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from tests.golden.golden_job import OUTPUT

import snapline as sl
from snapline.cli import main


def facts(snapshot: str | Path) -> dict[str, Any]:
    """Returns what `snapline inspect` prints about a snapshot, with its operators by uid."""
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["inspect", str(snapshot), "--json"]) == 0
    printed: dict[str, Any] = json.loads(output.getvalue())
    return {**printed, "operators": {operator["uid"]: operator for operator in printed["operators"]}}


def finished_tasks(snapshot: str | Path) -> set[str]:
    """Returns the operators and subtasks that had finished before the snapshot, such as `users` and `events/1`."""
    found: set[str] = set()
    for uid, operator in facts(snapshot)["operators"].items():
        found |= {f"{uid}/{subtask['index']}" for subtask in operator["subtasks"] if subtask["finished"]}
        if operator["fully_finished"]:
            found.add(uid)
    return found


def results() -> dict[str, list[Any]]:
    """Returns the committed output by name, sorted and reduced to what is the same for every complete run."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in sl.sinks.read_files(OUTPUT / "lines").to_pylist():
        found[line["what"]].append(json.loads(line["row"]))
    for row in sl.sinks.read_files(OUTPUT / "numbered").to_pylist():
        found["ids"].append({"id": row["id"]})
        found["numbers"].append({"user": row["user"], "number": row["number"]})
    for what in _SETTLED.keys() & found.keys():
        found[what] = _SETTLED[what](found[what])
    return {what: sorted(rows, key=json.dumps) for what, rows in sorted(found.items())}


def _last_aggregates(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each user, and all rows that came twice; how many came before depends on the batches."""
    times = Counter((row["user"], row["n"]) for row in rows)
    last = {row["user"]: row for row in sorted(rows, key=lambda row: int(row["n"]))}
    return [*last.values(), *(row for row in rows if times[row["user"], row["n"]] > 1)]


def _last_ranks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last row of each user and rank: files are read in the order of their checkpoints."""
    return list({(row["user"], row["rank"]): row for row in rows}.values())


def _settled_changes(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is left of a left join after its deletions, with how often it is there."""
    left: Counter[tuple[int, str | None]] = Counter()
    for row in rows:
        left[row["id"], row["name"]] += 1 if row["change"] == "insert" else -1
    return [{"id": id, "name": name, "times": times} for (id, name), times in left.items() if times]


def _ledger_totals(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every id, and the totals of all subtasks."""
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row["what"]] += row["n"]
    return [row for row in rows if row["what"] == "id"] + [{"rows": totals["rows"], "sum": totals["sum"]}]


_SETTLED: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "aggregate": _last_aggregates,
    "top": _last_ranks,
    "join": _settled_changes,
    "ledger": _ledger_totals,
}

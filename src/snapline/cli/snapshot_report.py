"""What `snapline inspect` shows: facts of snapshots and jobs, and rows of states, as tables or JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from enum import Enum
from typing import Any

from snapline.cli.storage_access import open_store, whole_path
from snapline.cli.terminal_output import moment, print_json, print_table, say
from snapline.cli.usage import UsageError
from snapline.protocol.keygroups import KeyGroupRange
from snapline.protocol.snapshot import Snapshot
from snapline.state.inspection.job_directory import JobFacts, inspect_path
from snapline.state.inspection.json_values import JsonValue, json_rows
from snapline.state.inspection.snapshot_facts import OperatorFacts, SnapshotFacts, snapshot_facts
from snapline.state.inspection.state_rows import select_state, state_rows
from snapline.state.state_info import is_pickled
from snapline.storage.snapshot_reader import SnapshotReader
from snapline.text import size_text


def report(options: argparse.Namespace) -> None:
    """Print what `options.path` names. Raises a `SnaplineError` that says what is wrong with it."""
    objects = open_store(options.s3)
    found = inspect_path(objects, whole_path(options.path))
    if isinstance(found, Snapshot):
        reader = SnapshotReader(objects)
        if options.state is None:
            facts = snapshot_facts(found, reader)
            print_json(_plain(facts)) if options.json else _print_snapshot(facts)
        else:
            shown = _rows(found, reader, options)
            print_json(shown) if options.json else _print_rows(shown)
    elif options.state is not None:
        raise UsageError(f"{found.location} is the directory of a job; name one of its checkpoints to see a state")
    else:
        print_json(_plain(found)) if options.json else _print_job(found)


def _rows(snapshot: Snapshot, reader: SnapshotReader, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the rows of the selected state and a description of them."""
    operator, state = select_state(snapshot, reader, options.state)
    key_groups = None
    if options.key_group is not None:
        last = operator.max_parallelism - 1
        if options.key_group > last:
            raise UsageError(f"operator {operator.uid!r} has no key group {options.key_group}, but 0 to {last}")
        key_groups = KeyGroupRange(options.key_group, options.key_group)
    limit = options.limit
    rows: list[dict[str, JsonValue]] = []
    kinds: dict[str, None] = {}
    columns: dict[str, str] = {}
    has_more = False
    for part in state_rows(operator, state, reader, key_groups=key_groups, subtask=options.subtask):
        kinds[part.info.kind.value] = None
        columns |= {field.name: str(field.type) for field in part.table.schema}
        room = limit - len(rows) if limit else part.table.num_rows
        pickled = frozenset(field.name for field in part.table.schema if is_pickled(part.info, field))
        shown = json_rows(part.table.slice(0, room), pickled, unpickle=options.unpickle)
        rows += ({"subtask": part.subtask, **row} for row in shown)
        if part.table.num_rows > room:
            has_more = True
            break
    return {
        "snapshot": snapshot.location,
        "uid": operator.uid,
        "state": state,
        "kind": ", ".join(kinds) or None,
        "columns": columns,
        "rows": rows,
        "has_more": has_more,
    }


# JSON.


def _plain(value: Any) -> Any:
    """Facts as JSON values: times also in ISO 8601, columns and hooks by name."""
    if isinstance(value, KeyGroupRange):
        return [value.start, value.end]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    for name in ("columns", "hooks"):
        if name in plain:
            plain[name] = dict(plain[name])
    if "timestamp_ms" in plain:
        plain["timestamp"] = moment(plain["timestamp_ms"])
    return plain


# Tables.


def _print_job(job: JobFacts) -> None:
    say(f"Job directory {job.location}")
    rows = []
    for it in job.checkpoints:
        published = "?" if it.is_published is None else "yes" if it.is_published else "no"
        condition = it.condition.value if it.problem is None else f"{it.condition.value}: {it.problem}"
        rows.append((f"chk-{it.id}", moment(it.timestamp_ms) or "", size_text(it.size_bytes), condition, published))
    print_table(("checkpoint", "taken at", "size", "condition", "published"), rows)
    if job.restore_from is None:
        say(f"Nothing to restore from: {job.note}.")
    else:
        say(f"Restore from {job.restore_from}: {job.note}.")


def _print_snapshot(facts: SnapshotFacts) -> None:
    kind = facts.kind.value.lower().replace("_", " ")
    form = "" if facts.format is None else f", {facts.format.value.lower()}"
    say(f"{kind.capitalize()} {facts.id}{form}, taken at {moment(facts.timestamp_ms)} by attempt {facts.attempt}")
    say(f"in {facts.location}")
    say(
        f"{size_text(facts.size_bytes)} in {facts.files} files: {size_text(facts.shared_bytes)} of it outside the "
        f"directory, {size_text(facts.inline_bytes)} inside the metadata"
    )
    for operator in facts.operators:
        _print_operator(operator)
    if facts.hooks:
        hooks = [(name, size_text(size_bytes)) for name, size_bytes in facts.hooks]
        print_table(("hook", "size"), hooks, title="Hooks")


def _print_operator(operator: OperatorFacts) -> None:
    finished = sum(it.finished for it in operator.subtasks)
    marks = [
        f"parallelism {operator.parallelism} of at most {operator.max_parallelism}",
        size_text(operator.size_bytes),
        "finished" if operator.fully_finished else f"{finished} subtasks finished" if finished else "",
        "" if operator.coordinator_bytes is None else f"coordinator {size_text(operator.coordinator_bytes)}",
    ]
    say("")
    say(f"Operator {operator.uid}: {', '.join(filter(None, marks))}")
    if operator.states:
        rows: list[Sequence[str]] = []
        for state in operator.states:
            columns = ", ".join(f"{name} {kind}" for name, kind in state.columns)
            columns += f" ({state.encoding.value})" if state.encoding.value != "arrow" else ""
            columns += f", kept for {state.ttl_ms} ms" if state.ttl_ms is not None else ""
            figures = f"{state.rows:,}", size_text(state.size_bytes), str(len(state.subtasks))
            rows.append((state.name, state.kind.value, columns, *figures))
        print_table(("state", "kind", "columns", "rows", "size", "subtasks"), rows)
    if operator.subtasks:
        rows = []
        for it in operator.subtasks:
            groups = ", ".join(f"{part.start}-{part.end}" for part in it.key_groups)
            sizes = [size_text(size) for size in (it.keyed_bytes, it.operator_bytes, it.channel_bytes)]
            rows.append((str(it.index), groups, *sizes, "finished" if it.finished else "ended" if it.ended else ""))
        print_table(("subtask", "key groups", "keyed", "operator", "in flight", ""), rows)
    if operator.native:
        states = dict.fromkeys(state for part in operator.native for state in part.states)
        print_table(("state", "kind"), states)
        rows = []
        for part in operator.native:
            groups = f"{part.key_groups.start}-{part.key_groups.end}"
            for file in part.files:
                name, shared = file.path.rsplit("/", 1)[-1], "shared" if file.is_shared else ""
                rows.append((str(part.subtask), part.backend, groups, name, size_text(file.size_bytes), shared))
        print_table(("subtask", "backend", "key groups", "file", "size", ""), rows)
    if operator.in_flight:
        edges = [(it.edge, it.side, str(it.channels), size_text(it.size_bytes)) for it in operator.in_flight]
        print_table(("edge", "captured at", "channels", "size"), edges)


def _print_rows(shown: dict[str, Any]) -> None:
    say(f"{shown['uid']}/{shown['state']}: {shown['kind'] or 'no rows'}")
    columns = ("subtask", *shown["columns"])
    rows = [[row.get(name) for name in columns] for row in shown["rows"]]
    print_table(
        columns,
        ([cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in cells] for cells in rows),
    )
    if shown["has_more"]:
        say(f"There are more rows than these {len(shown['rows'])}; --limit 0 shows all.")

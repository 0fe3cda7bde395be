"""`snapline checkpoints`: a table of a job's checkpoints, live on a terminal."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from snapline.cli.checkpoint_table import COLUMNS, history_cells, history_table, vertices_table
from snapline.cli.job_lookup import RunningJob, add_job, find_job, has_ended
from snapline.cli.terminal_output import console, print_json, printable, say
from snapline.cli.usage import Commands, UnreachableError, UsageError, add_command, add_json, count
from snapline.runtime.scheduler.system_threads import wall_clock_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

DEFAULT_LIMIT = 20
MAX_LIMIT = 1000
POLL_S = 1.0

_DESCRIPTION = """\
Show the checkpoints and savepoints of a job, newest first: how long they took, how large they are, and why one failed
or was slow.

On a terminal the table is live until Ctrl-C or until the job has ended; elsewhere it is printed once. With --watch and
no terminal, each checkpoint is printed as a line when it ends. With --id it shows one checkpoint by vertex."""


def add_checkpoints(commands: Commands) -> None:
    parser = add_command(
        commands,
        "checkpoints",
        _checkpoints,
        help="show the checkpoints of a job, live",
        description=_DESCRIPTION,
        examples=(
            "snapline checkpoints clicks",
            "snapline checkpoints clicks --once --limit 5",
            "snapline checkpoints clicks --id 12",
            "snapline checkpoints s3://bucket/checkpoints/clicks --json",
        ),
    )
    add_job(parser)
    parser.add_argument(
        "--limit", metavar="N", type=count, default=DEFAULT_LIMIT, help=f"how many (default {DEFAULT_LIMIT})"
    )
    parser.add_argument("--id", metavar="ID", type=count, help="show this checkpoint by vertex, and why it was slow")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="go on until the job has ended; the default on a terminal")
    how.add_argument("--once", action="store_true", help="print them once; the default without a terminal")
    add_json(parser)


def _checkpoints(options: argparse.Namespace) -> int:
    if options.watch and (options.json or options.id is not None):
        raise UsageError("--watch goes with neither --json nor --id; see snapline checkpoints --help")
    if not 1 <= options.limit <= MAX_LIMIT:
        raise UsageError(f"--limit {options.limit}: use 1 to {MAX_LIMIT}")
    job = find_job(options)
    if options.id is not None:
        _one(job, options)
    elif options.json:
        print_json(_history(job, options.limit))
    elif options.watch or (sys.stdout.isatty() and not options.once):
        _watch_terminal(job, options.limit) if sys.stdout.isatty() else _watch_lines(job, options.limit)
    else:
        console().print(_rendered(job, _history(job, options.limit)))
    return 0


def _history(job: RunningJob, limit: int) -> dict[str, Any]:
    history: dict[str, Any] = job.client.get(f"{job.path}/checkpoints", limit=limit)
    return history


def _one(job: RunningJob, options: argparse.Namespace) -> None:
    checkpoint = job.client.get(f"{job.path}/checkpoints/{options.id}")
    if options.json:
        print_json(checkpoint)
        return
    console().print(history_table([checkpoint], wall_clock_ms()))
    say("")
    console().print(vertices_table(checkpoint.get("vertices") or ()))


# Live.


def _watch_terminal(job: RunningJob, limit: int) -> None:
    from rich.live import Live

    history = _history(job, limit)
    with Live(_rendered(job, history), console=console(), auto_refresh=False) as live:
        while not has_ended(_status(job)):
            time.sleep(POLL_S)
            try:
                history = _history(job, limit)
            except UnreachableError as error:
                live.console.print(printable(f"{error}"))
                break
            live.update(_rendered(job, history), refresh=True)


def _watch_lines(job: RunningJob, limit: int) -> None:
    say("  ".join(COLUMNS))
    shown: set[int] = set()
    is_last = False
    while not is_last:
        try:
            is_last = has_ended(_status(job))
            history = _history(job, limit)
        except UnreachableError:
            return  # the driver has ended with its job
        for row in reversed(history["history"]):
            if row["id"] not in shown and row["status"] != "IN_PROGRESS":
                shown.add(row["id"])
                say("  ".join(history_cells(row)))
        sys.stdout.flush()
        if not is_last:
            time.sleep(POLL_S)


def _status(job: RunningJob) -> object:
    try:
        return job.client.get(job.path).get("status")
    except UnreachableError:
        return None  # what asks next will say so


def _rendered(job: RunningJob, history: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    counts = history.get("counts") or {}
    names = ("completed", "failed", "in_progress", "restored")
    line = ", ".join(f"{counts.get(name, 0):,} {name.replace('_', ' ')}" for name in names)
    parts: list[RenderableType] = [Text(printable(f"{job.name}: {line}"), style="bold")]
    if not_started := history.get("not_started"):
        reason = f"{not_started.get('reason')}: {not_started.get('message')}"
        parts.append(Text(printable(f"the last one could not start: {reason}"), style="yellow"))
    return Group(*parts, history_table(history["history"], wall_clock_ms()))

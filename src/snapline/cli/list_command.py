"""`snapline list`: running jobs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from snapline.cli.job_lookup import add_access, given_token
from snapline.cli.job_url import ServerUrl
from snapline.cli.known_jobs import KnownJob, addresses_in, jobs_at, local_addresses, look
from snapline.cli.rest_client import RestClient
from snapline.cli.storage_access import open_store, whole_path
from snapline.cli.terminal_output import print_json, print_table, say, warn
from snapline.cli.usage import Commands, add_command, add_json
from snapline.runtime.scheduler.system_threads import wall_clock_ms
from snapline.text import duration_text

_DESCRIPTION = """\
List the running jobs of this user on this machine; with a WHERE, those of a server, or those that have their
checkpoints at a storage path, wherever their drivers are.

A job appears as long as its driver serves its page. Drivers that were killed are named on standard error; what they
have left in your home is removed."""


def add_list(commands: Commands) -> None:
    parser = add_command(
        commands,
        "list",
        _list,
        help="list running jobs",
        description=_DESCRIPTION,
        examples=(
            "snapline list",
            "snapline list /data/checkpoints",
            "snapline list s3://bucket/checkpoints --json",
            "snapline list http://driver:4300 --token-file token",
        ),
    )
    parser.add_argument("where", metavar="WHERE", nargs="?", help="the URL of a server, or a storage path")
    add_json(parser)
    add_access(parser)


def _list(options: argparse.Namespace) -> int:
    token = given_token(options)
    if options.where is not None and options.where.startswith(("http://", "https://")):
        rows = [{**row, "problem": None} for row in jobs_at(RestClient(ServerUrl.parse(options.where).base, token))]
        gone: list[KnownJob] = []
    else:
        if options.where is None:
            found = local_addresses()
        else:
            found = addresses_in(open_store(options.s3), whole_path(options.where))
        known = look(found, token)
        gone = [job for job in known if job.is_gone]
        rows = [_row(job) for job in known if not job.is_gone]
    if options.json:
        print_json({"jobs": rows, "gone": [_row(job) for job in gone]})
        return 0
    for job in gone:
        warn(f"job {job.address.name!r} is not running: {job.problem}")
    if rows:
        _print(rows)
    else:
        say("No jobs are running." if options.where is None else f"No jobs of {options.where} are running.")
    return 0


def _row(job: KnownJob) -> dict[str, Any]:
    address = job.address
    known = {
        "job_id": address.job_id,
        "name": address.name,
        "url": address.url,
        "status": None,
        "attempt": None,
        "started_ms": address.started_ms,
        "health": None,
    }
    place = {"host": address.host, "pid": address.pid, "storage": address.storage}
    return {**known, **(job.row or {}), **place, "problem": job.problem or None}


def _print(rows: list[dict[str, Any]]) -> None:
    now_ms = wall_clock_ms()
    cells = []
    for row in rows:
        health: Mapping[str, Any] = row.get("health") or {}
        line = row["problem"] or health.get("line") or ""
        for_ = duration_text(max(now_ms - int(row["started_ms"]), 0)) if row.get("started_ms") else ""
        attempt = "" if row.get("attempt") is None else str(row["attempt"])
        cells.append((row["name"], row["job_id"], row["status"] or "?", for_, attempt, line, row.get("url") or ""))
    print_table(("name", "id", "status", "for", "attempt", "health", "page"), cells)

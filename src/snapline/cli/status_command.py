"""`snapline status`: how a job is doing."""

from __future__ import annotations

import argparse

from snapline.cli.job_lookup import add_job, find_job
from snapline.cli.status_text import print_status
from snapline.cli.terminal_output import print_json
from snapline.cli.usage import FAILED, OK, Commands, add_command, add_json

_DESCRIPTION = """\
Show how a job is doing: status, health and what to do about it, checkpoints, the last failure, and each vertex of the
dataflow with its rates and how busy it is.

Exits with 0 if the job can be reached, healthy or not; with --check it exits with 1 unless the job is healthy."""


def add_status(commands: Commands) -> None:
    parser = add_command(
        commands,
        "status",
        _status,
        help="show how a job is doing",
        description=_DESCRIPTION,
        examples=(
            "snapline status clicks",
            "snapline status /data/checkpoints/clicks",
            "snapline status http://127.0.0.1:4300 --json",
            "snapline status clicks --check || page-somebody",
        ),
    )
    add_job(parser)
    parser.add_argument("--check", action="store_true", help="exit with 1 unless the job is healthy")
    add_json(parser)


def _status(options: argparse.Namespace) -> int:
    job = find_job(options)
    document = job.client.get(job.path)
    print_json(document) if options.json else print_status(document)
    health = document.get("health") or {}
    return FAILED if options.check and health.get("level") != "good" else OK

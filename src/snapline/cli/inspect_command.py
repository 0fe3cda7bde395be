"""`snapline inspect`: the content of a checkpoint or savepoint."""

from __future__ import annotations

import argparse

from snapline.cli.usage import Commands, UsageError, add_command, add_json, add_s3, count

DEFAULT_LIMIT = 20
"""Rows of a state shown without `--limit`."""

_DESCRIPTION = """\
Show the content of a checkpoint or savepoint, without its job.

PATH is the directory of a snapshot, its _metadata file, or the directory of a job. For a job it lists the checkpoints,
and the one to restore from. Local paths and URLs such as s3://bucket/jobs/7f3a/chk-12 work alike."""

_EXAMPLES = (
    "snapline inspect /data/checkpoints/7f3a",
    "snapline inspect /data/checkpoints/7f3a/chk-12",
    "snapline inspect s3://bucket/savepoints/savepoint-7f3a-01ab --state count/total --limit 100",
    "snapline inspect /data/checkpoints/7f3a/chk-12 --state count/total --key-group 17 --json",
    "snapline inspect s3://bucket/jobs/7f3a --s3 endpoint=http://minio:9000 --s3 key=env:KEY --s3 secret=file:secret",
)


def add_inspect(commands: Commands) -> None:
    inspect = add_command(
        commands,
        "inspect",
        _inspect,
        help="show the content of a checkpoint or savepoint",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
    )
    inspect.add_argument("path", metavar="PATH", help="a snapshot, its _metadata, or the directory of a job")
    add_json(inspect, "print one JSON document instead of tables")
    add_s3(inspect)
    state = inspect.add_argument_group("rows of a state")
    state.add_argument("--state", metavar="UID/NAME", help="show the rows of this state of this operator")
    state.add_argument(
        "--limit", metavar="N", type=count, help=f"show at most N rows, 0 for all (default {DEFAULT_LIMIT})"
    )
    state.add_argument("--key-group", metavar="K", type=count, help="only rows of this key group")
    state.add_argument("--subtask", metavar="I", type=count, help="only rows written by this subtask")
    state.add_argument(
        "--unpickle",
        action="store_true",
        help="show pickled values themselves, not just their sizes. THIS RUNS CODE FROM THE FILE: use it only on "
        "snapshots you trust, where the job's modules can be imported",
    )


def _inspect(options: argparse.Namespace) -> int:
    # Imported here because it loads far more than commands for running jobs need.
    from snapline.cli.snapshot_report import report

    given = [name for name in ("limit", "key_group", "subtask") if getattr(options, name) is not None]
    if options.state is None and (given or options.unpickle):
        name = given[0].replace("_", "-") if given else "unpickle"
        raise UsageError(f"--{name} needs --state UID/NAME; see snapline inspect --help")
    if options.limit is None:
        options.limit = DEFAULT_LIMIT
    report(options)
    return 0

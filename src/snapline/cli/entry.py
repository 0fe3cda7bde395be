"""Parses the command line, runs the command, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence

from snapline.cli.checkpoints_command import add_checkpoints
from snapline.cli.completion_command import add_completion
from snapline.cli.demo_command import add_demo
from snapline.cli.dispose_command import add_dispose
from snapline.cli.events_command import add_events
from snapline.cli.inspect_command import add_inspect
from snapline.cli.list_command import add_list
from snapline.cli.request_commands import add_requests
from snapline.cli.run_command import add_run
from snapline.cli.status_command import add_status
from snapline.cli.terminal_output import warn
from snapline.cli.ui_command import add_ui
from snapline.cli.usage import (
    BAD_INPUT,
    EXIT_CODES,
    FAILED,
    INTERRUPTED,
    UNREACHABLE,
    OperationError,
    Parser,
    UnreachableError,
)
from snapline.errors import SnaplineError

_DESCRIPTION = """\
Consistent checkpoints for Python pipelines that run on Spark.

JOB is the name or id of a running job of yours on this machine, its URL, or the path of its storage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code, see `EXIT_CODES`.

    An error is one line on standard error, for a job that failed with the traceback of its task.
    """
    status = 0
    try:
        options = make_parser().parse_args(arguments)
        status = options.run(options)
        sys.stdout.flush()
    except SnaplineError as error:
        return _failed(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output again at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def make_parser() -> Parser:
    parser = Parser(
        prog="snapline",
        description=_DESCRIPTION,
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"snapline {importlib.metadata.version('snapline')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    add_run(commands)
    add_list(commands)
    add_status(commands)
    add_checkpoints(commands)
    add_requests(commands)
    add_events(commands)
    add_inspect(commands)
    add_dispose(commands)
    add_ui(commands)
    add_completion(commands, parser)
    add_demo(commands)
    return parser


def _failed(error: SnaplineError) -> int:
    # Imported here because commands that only ask a running job do not need it.
    from snapline.api.job_handle import JobFailedError

    warn(str(error))
    if isinstance(error, JobFailedError):
        sys.stderr.write(error.trace)
        return FAILED
    if isinstance(error, UnreachableError):
        return UNREACHABLE
    return FAILED if isinstance(error, OperationError) else BAD_INPUT

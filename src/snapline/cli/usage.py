"""What all commands share: how they are declared, how they fail, and their exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from snapline.errors import SnaplineError

OK = 0
FAILED = 1
BAD_INPUT = 2
UNREACHABLE = 3
INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0    it worked
  1    the job or the operation failed
  2    the command line or a setting is wrong
  3    the job cannot be reached, or no such job is running
  130  Ctrl-C"""

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Run: TypeAlias = Callable[[argparse.Namespace], int]


class UsageError(SnaplineError):
    """The command line is invalid."""


class UnreachableError(SnaplineError):
    """The job, or its driver, cannot be reached: most likely it is not running."""


class OperationError(SnaplineError):
    """The job refused what was asked of it, or failed at it."""


class Parser(argparse.ArgumentParser):
    """Raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def add_command(
    commands: Commands,
    name: str,
    run: Run,
    *,
    help: str,
    description: str,
    examples: Sequence[str] = (),
    **settings: Any,
) -> Parser:
    """Declare a command. `examples` are shown below its options."""
    epilog = "\n".join(["examples:", *(f"  {example}" for example in examples)]) if examples else None
    parser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        **settings,
    )
    parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser, help: str = "print one JSON document instead of text") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def add_s3(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--s3",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="how to reach S3: endpoint, region, profile, and key, secret, token as env:NAME or file:PATH; repeatable",
    )


def count(text: str) -> int:
    """The type of an argument that is a number of 0 or more."""
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)

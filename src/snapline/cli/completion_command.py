"""`snapline completion`: scripts that let shells complete the command line."""

from __future__ import annotations

import argparse
import sys

from snapline.cli.completion_model import read_model
from snapline.cli.shell_scripts import SCRIPTS
from snapline.cli.usage import Commands, Parser, add_command

_DESCRIPTION = """\
Print a script that lets a shell complete commands, options, ids of running jobs and paths."""


def add_completion(commands: Commands, parser: Parser) -> None:
    """`parser` is the one that knows all commands, once they are declared."""

    def run(options: argparse.Namespace) -> int:
        sys.stdout.write(SCRIPTS[options.shell](read_model(parser)))
        return 0

    completion = add_command(
        commands,
        "completion",
        run,
        help="print a script for completion in a shell",
        description=_DESCRIPTION,
        examples=(
            "source <(snapline completion bash)          # in ~/.bashrc",
            'snapline completion zsh > "${fpath[1]}/_snapline"',
            "snapline completion fish > ~/.config/fish/completions/snapline.fish",
        ),
    )
    completion.add_argument("shell", choices=sorted(SCRIPTS), help="for which shell")

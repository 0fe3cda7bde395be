"""Completion scripts: help texts cannot break them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from snapline.cli.completion_model import CommandModel, Kind, OptionModel, Value
from snapline.cli.shell_scripts import SCRIPTS

NASTY = 'don\'t $(touch x) `y` "z" [a]: 100 % \\ end'
COMMANDS = (
    CommandModel(
        "go",
        NASTY,
        (OptionModel(("-x", "--x-ray"), NASTY, Value("V", Kind.NOTHING)),),
        (Value("F", Kind.WORDS, ("a", "b")),),
    ),
)


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_scripts_are_valid(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, "--no-execute"] if shell == "fish" else [shell, "-n"]
    done = subprocess.run(command, input=SCRIPTS[shell](COMMANDS), capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_help_has_nothing_that_a_shell_reads(shell: str) -> None:
    script = SCRIPTS[shell](COMMANDS)
    assert "$(touch" not in script
    assert "`y`" not in script
    assert "don t (touch x) y z a 100 % end" in script

"""How commands are declared."""

from __future__ import annotations

import argparse

import pytest

from snapline.cli.entry import make_parser
from snapline.cli.usage import Parser, UsageError, add_command, count


def test_a_mistake_raises_and_names_the_help() -> None:
    with pytest.raises(UsageError, match="required: COMMAND; see snapline --help"):
        make_parser().parse_args([])


def test_examples_are_below_the_options() -> None:
    commands = Parser(prog="p").add_subparsers(parser_class=Parser)
    command = add_command(commands, "go", lambda _: 0, help="h", description="d", examples=["p go far"])
    assert command.format_help().endswith("examples:\n  p go far\n")
    assert command.parse_args([]).run(None) == 0


@pytest.mark.parametrize("text", ["-1", "1.5", "", "x", "١"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        count(text)
    assert count("007") == 7


def test_every_command_has_examples_and_can_speak_json() -> None:
    (commands,) = (it for it in make_parser()._actions if isinstance(it, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        has_json = any("--json" in action.option_strings for action in parser._actions)
        assert has_json is (name not in ("run", "demo", "completion")), name
        assert name == "demo" or "examples:\n" in parser.format_help(), name

"""What the parsers of the command line say about completion."""

from __future__ import annotations

from snapline.cli.completion_model import Kind, Value, read_model
from snapline.cli.entry import make_parser

MODEL = {command.name: command for command in read_model(make_parser())}


def test_arguments_by_what_they_are() -> None:
    assert MODEL["status"].arguments == (Value("JOB", Kind.BOTH),)
    assert MODEL["savepoint"].arguments == (Value("JOB", Kind.BOTH), Value("DIR", Kind.FILES))
    assert MODEL["completion"].arguments == (Value("shell", Kind.WORDS, ("bash", "fish", "zsh")),)
    assert [it.kind for it in MODEL["run"].arguments] == [Kind.FILES, Kind.FILES]
    assert MODEL["run"].has_rest
    assert not MODEL["status"].has_rest


def test_options_and_their_values() -> None:
    options = {name: option for option in MODEL["savepoint"].options for name in option.names}
    assert options["--json"].value is None
    assert options["--format"].value == Value("format", Kind.WORDS, ("canonical", "native"))
    assert options["--timeout"].value == Value("TIME", Kind.NOTHING)
    assert options["--token-file"].value == Value("FILE", Kind.FILES)
    assert MODEL["events"].names[:2] == ("-h", "--help")
    assert ("--follow", "-f") in [option.names for option in MODEL["events"].options]


def test_every_command_says_what_it_does() -> None:
    assert [command.name for command in MODEL.values() if not command.help] == []

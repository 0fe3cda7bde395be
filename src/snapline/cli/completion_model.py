"""What can be completed, as the parsers of the command line declare it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from enum import Enum

_JOBS = frozenset({"JOB"})
_FILES = frozenset({"FILE", "FILES", "SCRIPT", "ARG"})
_PATHS = frozenset({"PATH", "DIR"})
_EITHER = frozenset({"PATH_OR_JOB", "WHERE"})


class Kind(Enum):
    """What a value can be completed with."""

    NOTHING = "nothing"
    WORDS = "words"
    JOBS = "jobs"
    FILES = "files"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an option, or an argument. `words` are all that it can be, if its kind is WORDS."""

    name: str
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptionModel:
    """An option under all its names. `value` is None for a switch."""

    names: tuple[str, ...]
    help: str
    value: Value | None


@dataclass(frozen=True, slots=True)
class CommandModel:
    """A command. If `has_rest`, its last argument can be repeated, and no option follows it."""

    name: str
    help: str
    options: tuple[OptionModel, ...]
    arguments: tuple[Value, ...]
    has_rest: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names of its options."""
        return tuple(name for option in self.options for name in option.names)


def read_model(parser: argparse.ArgumentParser) -> tuple[CommandModel, ...]:
    """All commands of a parser."""
    (commands,) = (it for it in parser._actions if isinstance(it, argparse._SubParsersAction))
    helps = {it.dest: it.help or "" for it in commands._choices_actions}
    return tuple(_command(name, helps.get(name, ""), below) for name, below in commands.choices.items())


def _command(name: str, help: str, parser: argparse.ArgumentParser) -> CommandModel:
    options = [
        OptionModel(tuple(it.option_strings), _help(it), None if it.nargs == 0 else _value(it))
        for it in parser._actions
        if it.option_strings
    ]
    arguments = [it for it in parser._actions if not it.option_strings]
    has_rest = any(it.nargs == argparse.REMAINDER for it in arguments)
    return CommandModel(name, help, tuple(options), tuple(map(_value, arguments)), has_rest)


def _value(action: argparse.Action) -> Value:
    name = str(action.metavar or action.dest)
    if action.choices is not None:
        return Value(name, Kind.WORDS, tuple(map(str, action.choices)))
    if name in _JOBS:
        return Value(name, Kind.JOBS if action.option_strings else Kind.BOTH)
    if name in _EITHER:
        return Value(name, Kind.BOTH)
    return Value(name, Kind.FILES if name in _FILES | _PATHS else Kind.NOTHING)


def _help(action: argparse.Action) -> str:
    """Its help without what would need quotes in a shell."""
    text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
    return " ".join(text.split())

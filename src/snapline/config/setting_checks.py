"""Checks that the settings classes share. Each returns the value to keep, or raises `ConfigurationError`."""

from __future__ import annotations

import math
from enum import Enum
from os import PathLike, fspath
from typing import TypeAlias, TypeVar

from snapline.errors import ConfigurationError

Path: TypeAlias = str | PathLike[str]

MAX_COUNT = 1_000_000
"""Upper limit of every setting that counts something, so that a slip cannot switch a limit off."""

E = TypeVar("E", bound=Enum)


class Settings:
    """Base of the settings classes: lets a constructor that takes friendly values fill a frozen dataclass."""

    __slots__ = ()

    def _fill(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


def wrong(setting: str, given: object, what_to_do: str) -> ConfigurationError:
    """The error to raise about a setting."""
    return ConfigurationError(f"{setting}={given!r}: {what_to_do}")


def count(value: object, setting: str, *, least: int, most: int | None = MAX_COUNT) -> int:
    """`value`, a whole number; `most` of None is no upper limit."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(setting, value, "not a whole number; give an int")
    if value < least:
        raise wrong(setting, value, f"too small; use at least {least}")
    if most is not None and value > most:
        raise wrong(setting, value, f"too large; use at most {most}")
    return value


def number(value: object, setting: str) -> float:
    """`value`, a finite number, as a float."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise wrong(setting, value, "not a finite number; give a float")
    return float(value)


def flag(value: object, setting: str) -> bool:
    """`value`, True or False: the text "false" from a configuration file would count as true."""
    if not isinstance(value, bool):
        raise wrong(setting, value, "neither True nor False; give one of them")
    return value


def member(kind: type[E], value: E | str, setting: str) -> E:
    """`value`, a member of this enum, or the name of one in any case."""
    if isinstance(value, kind):
        return value
    name = value.strip().upper().replace("-", "_") if isinstance(value, str) else ""
    if name not in kind.__members__:
        raise wrong(setting, value, f"unknown; use one of {', '.join(kind.__members__)}")
    return kind[name]


def path(value: Path | None, setting: str) -> str | None:
    """`value`, a directory or URL, as text; None stays None."""
    if value is None:
        return None
    try:
        found = fspath(value)
    except TypeError:
        found = None
    if not isinstance(found, str):
        raise wrong(setting, value, "not a path; give a directory or URL as text, or a pathlib.Path")
    if not found.strip():
        raise wrong(setting, value, "empty; give a directory or URL, or leave it out")
    return found

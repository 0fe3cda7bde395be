"""Checks that the settings classes share. Each returns the value to keep, or raises `ConfigurationError`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum
from os import PathLike, fspath
from typing import TypeAlias, TypeVar

from snapline.errors import ConfigurationError

Path: TypeAlias = str | PathLike[str]

Mode: TypeAlias = int | str
"""The mode of a directory, 0o700 or "0700"."""

Ports: TypeAlias = int | str
"""A port, 7100, or a range of ports, "7100-7109"."""

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


def paths(value: Path | Sequence[Path], setting: str) -> tuple[str, ...]:
    """`value`, some directories or URLs, as text; text may hold several, separated by commas."""
    given = value.split(",") if isinstance(value, str) else [value] if isinstance(value, PathLike) else value
    return tuple(found for item in given if (found := path(item, setting)) is not None)


def file_mode(value: Mode | None, setting: str) -> int | None:
    """`value`, a file mode, as a number; None stays None."""
    if value is None:
        return None
    try:
        found = int(value, 8) if isinstance(value, str) else value
    except ValueError:
        found = -1
    if not isinstance(found, int) or isinstance(found, bool) or found & ~0o777 or found & 0o700 != 0o700:
        raise wrong(setting, value, 'not a mode of directories that their owner can use; give one such as "0700"')
    return found


def ports(value: Ports | None, setting: str) -> str | None:
    """`value`, a port or a range of ports, as text; None stays None."""
    if value is None:
        return None
    first, dash, last = str(value).partition("-")
    try:
        numbers = int(first), int(last if dash else first)
    except ValueError:
        numbers = (0, 0)
    if isinstance(value, bool) or not 0 < numbers[0] <= numbers[1] < 1 << 16:
        raise wrong(setting, value, 'neither a port nor a range of ports; give 7100 or "7100-7109", from 1 to 65535')
    return str(numbers[0]) if numbers[0] == numbers[1] else f"{numbers[0]}-{numbers[1]}"


def port_range(checked: str | None) -> range:
    """The ports to try for a setting that `ports` has checked; None is port 0, any free one."""
    if checked is None:
        return range(1)
    first, _, last = checked.partition("-")
    return range(int(first), int(last or first) + 1)

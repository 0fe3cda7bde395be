"""Reads scripts: checked JSON values, with errors that say where, what is wrong and what to use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from snapline.errors import SnaplineError

T = TypeVar("T")

_SHOWN_CHARACTERS = 60

NOTES = frozenset({"about", "comment", "description", "expect", "kind", "name", "note", "outcome", "script"})
"""Fields a script may carry for its readers; the tool ignores them."""


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
"""The value of a missing field without a default. No check accepts it."""


class NotUnderstoodError(SnaplineError, ValueError):
    """A script breaks its format. The message says where, what is wrong and what is allowed."""


class Fields:
    """One JSON object. Read every field it may have, then call `done`, which refuses all others.

    A field without a default must be there. `where` is the path to the object from the top of the script; the script
    itself has none, and may have an id and `NOTES`.
    """

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, dict):
            raise NotUnderstoodError(f"{where or 'the line'} is {shown(value)}; use a JSON object")
        self._values: dict[str, Any] = value
        self._where = where
        self._known: set[str] = set() if where else {"id", *NOTES}

    def __contains__(self, name: str) -> bool:
        self._known.add(name)
        return name in self._values

    def where(self, name: str) -> str:
        """The path to a field of this object, for messages."""
        return f"{self._where}.{name}" if self._where else name

    def value(self, name: str, default: object = MISSING) -> Any:
        """A field of any type; the caller checks it."""
        return self._values[name] if name in self else default

    def integer(
        self, name: str, default: int | Missing = MISSING, *, minimum: int = 0, maximum: int | None = None
    ) -> int:
        """A whole number within bounds."""
        return integer(self.value(name, default), self.where(name), minimum=minimum, maximum=maximum)

    def optional_integer(self, name: str, default: int | None) -> int | None:
        """A whole number from 0 on, or null."""
        value = self.value(name, default)
        return None if value is None else integer(value, self.where(name), alternative="null")

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.value(name, default)
        if not isinstance(value, bool):
            raise NotUnderstoodError(f"{self.where(name)} is {shown(value)}; use true or false")
        return value

    def text(self, name: str, default: str | Missing = MISSING) -> str:
        """A string."""
        return text(self.value(name, default), self.where(name))

    def choice(self, name: str, choices: Mapping[str, T], default: str | Missing = MISSING) -> T:
        """The value that one of these words stands for."""
        word = self.value(name, default)
        if not isinstance(word, str) or word not in choices:
            raise NotUnderstoodError(f"{self.where(name)} is {shown(word)}; use one of {', '.join(choices)}")
        return choices[word]

    def array(self, name: str, default: list[Any] | Missing = MISSING) -> list[tuple[str, Any]]:
        """The items of an array, each with its own `where`."""
        return array(self.value(name, default), self.where(name))

    def done(self) -> None:
        """Refuse the fields that were not read: they are most likely misspelt."""
        unknown = sorted(self._values.keys() - self._known)
        if unknown:
            names = ", ".join(shown(self.where(name)) for name in unknown)
            raise NotUnderstoodError(f"there is no field {names} here; there are {', '.join(sorted(self._known))}")


def integer(
    value: Any, where: str, *, minimum: int = 0, maximum: int | None = None, alternative: str | None = None
) -> int:
    """`value` if it is a whole number within bounds. True and false are not numbers."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and value >= minimum and (maximum is None or value <= maximum):
        return int(value)
    allowed = f"a whole number from {minimum} {'on' if maximum is None else f'to {maximum}'}"
    raise NotUnderstoodError(
        f"{where} is {shown(value)}; use {allowed}{f' or {alternative}' if alternative is not None else ''}"
    )


def text(value: object, where: str) -> str:
    """`value` if it is a string."""
    if not isinstance(value, str):
        raise NotUnderstoodError(f"{where} is {shown(value)}; use a string")
    return value


def array(value: object, where: str) -> list[tuple[str, Any]]:
    """The items of `value` if it is an array, each with its own `where`."""
    if not isinstance(value, list):
        raise NotUnderstoodError(f"{where} is {shown(value)}; use an array")
    return [(f"{where}[{index}]", item) for index, item in enumerate(value)]


def shown(value: object) -> str:
    """A value as JSON, shortened for messages."""
    if isinstance(value, Missing):
        return value.value
    as_json = json.dumps(value)
    return as_json if len(as_json) <= _SHOWN_CHARACTERS else f"{as_json[:_SHOWN_CHARACTERS]}..."

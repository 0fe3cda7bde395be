"""The data source that a user gives, and calls of its methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from snapline.config.secret import Secret
from snapline.connectors.data_source.late_pyspark import data_source_types
from snapline.errors import ConfigurationError, SnaplineError, UserCodeError
from snapline.text import error_text

Options: TypeAlias = Mapping[str, "str | bool | int | float | Secret"]
"""Options of a data source; they reach it as text."""


class UserDataSource:
    """A class with its options, or an instance. It travels with the job; every process makes its own instance."""

    def __init__(self, given: Any, options: Options | None, what: str) -> None:
        self._kind = data_source_types().checked_kind(given, what)
        self._instance = None if isinstance(given, type) else given
        if self._instance is not None and options:
            raise ConfigurationError(f"{what}(options=...): an instance has its own options; give its class instead")
        self._options = {_name(name, what): _value(value, name, what) for name, value in dict(options or {}).items()}
        self._what = what

    def __str__(self) -> str:
        return f"{self._what}({self._kind.__name__})"

    def implements(self, method: str) -> bool:
        return bool(data_source_types().implements(self._kind, method))

    def made(self) -> Any:
        """The instance that was given, or a new one."""
        if self._instance is not None:
            return self._instance
        options = {
            name: value.resolve() if isinstance(value, Secret) else value for name, value in self._options.items()
        }
        with self.calling("__init__()"):
            return data_source_types().made(self._kind, options)

    @contextmanager
    def calling(self, call: str) -> Iterator[None]:
        """Errors of this call say so; those of Snapline are left as they are."""
        try:
            yield
        except SnaplineError:
            raise
        except Exception as error:
            raise UserCodeError(f"{self}: {call} raised {error_text(error)}") from error


def _name(name: Any, what: str) -> str:
    if not isinstance(name, str):
        raise ConfigurationError(f"{what}(options=...): {name!r} is not the name of an option; give text")
    return name


def _value(value: Any, name: str, what: str) -> str | Secret:
    if isinstance(value, str | Secret):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise ConfigurationError(
        f"{what}(options=...): {name!r} is a {type(value).__name__}; give text, a number, True, False or a Secret"
    )

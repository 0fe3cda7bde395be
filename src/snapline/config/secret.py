"""A credential by reference: the job says where it is, and each process reads it where and when it needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from snapline.config.setting_checks import Path
from snapline.errors import ConfigurationError, SnaplineError, UserCodeError

MAX_FILE_BYTES = 64 << 10
"""A longer file is hardly a credential, and is not read."""

MIN_HIDDEN_CHARACTERS = 3
"""Shorter values are not searched for in messages: their letters are everywhere."""


class Secret:
    """A password, key or token that a setting names but does not hold.

    ```python
    sl.Secret.env("MINIO_SECRET")  # an environment variable
    sl.Secret.file("/run/secrets/minio")  # the content of a file, without the space around it
    sl.Secret.call(read_vault)  # what a function of yours returns
    ```

    Only the reference travels with the job; the driver and every operator process resolve it on their own machine,
    each time they connect, so that a rotated credential is found without a restart. `repr`, `str` and f-strings show
    the reference and never the value. Wherever a credential is expected, plain text is taken as well: it is hidden in
    the same way, but it travels with the job, and whoever can read a copy of the job can read it.
    """

    __slots__ = ("_kind", "_source")

    _kind: str
    _source: Any

    def __init__(self) -> None:
        raise ConfigurationError("a Secret needs a place; use Secret.env(name), Secret.file(path) or Secret.call(f)")

    @classmethod
    def env(cls, name: str) -> Secret:
        """The environment variable `name` of the process that needs it."""
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise ConfigurationError(f"Secret.env({name!r}): not the name of an environment variable")
        return _made("env", name)

    @classmethod
    def file(cls, path: Path) -> Secret:
        """The text of a file on the machine that needs it, without white space at its ends; at most 64 KB."""
        try:
            text = os.fspath(path)
        except TypeError:
            text = ""
        if not isinstance(text, str) or not text.strip():
            raise ConfigurationError(f"Secret.file({path!r}): not a path; give the file that holds the credential")
        return _made("file", text)

    @classmethod
    def call(cls, function: Callable[[], str]) -> Secret:
        """What `function` returns, called without arguments in the process that needs it. It may raise.

        The function travels with the job as the functions of its operators do. Any thread may call it.
        """
        if not callable(function):
            raise ConfigurationError(f"Secret.call({type(function).__name__}): not a function without arguments")
        return _made("call", function)

    @classmethod
    def of(cls, given: SecretLike, setting: str) -> Secret:
        """`given`, or text wrapped so that it is not shown. Connectors call it for the values of their settings.

        Raises `ConfigurationError` that names `setting`, never the value.
        """
        if isinstance(given, Secret):
            return given
        if not isinstance(given, str) or not given:
            problem = "empty" if given == "" else f"a {type(given).__name__}"
            raise ConfigurationError(f"{setting}: {problem}; give a Secret, such as Secret.env({setting.upper()!r})")
        return _made("given", given)

    @property
    def is_given(self) -> bool:
        """Whether it was given as plain text, which travels with the job."""
        return self._kind == "given"

    @property
    def reference(self) -> str:
        """Where the value is, as text, for settings that are shown or stored: `env:NAME`, `file:PATH` or `call:NAME`.

        `***` if it was given as plain text.
        """
        if self._kind == "given":
            return "***"
        named = getattr(self._source, "__qualname__", type(self._source).__name__)
        return f"{self._kind}:{named if self._kind == 'call' else self._source}"

    def resolve(self) -> str:
        """The value, read anew with each call.

        Raises `ConfigurationError` if it is not to be had on this machine, and `UserCodeError` from what a function
        raised; neither shows a value.
        """
        if self._kind == "given":
            return str(self._source)
        if self._kind == "env":
            return self._not_empty(os.environ.get(self._source), "is not set; set it for")
        if self._kind == "file":
            return self._not_empty(self._read(), "is empty; write the credential into it for")
        return self._called()

    def _read(self) -> str:
        try:
            with open(self._source, encoding="utf-8") as file:
                text = file.read(MAX_FILE_BYTES + 1)
        except UnicodeDecodeError:
            # Not as its cause: that error quotes the bytes.
            raise self._missing("is not UTF-8 text; write the credential as text for") from None
        except OSError as error:
            raise self._missing(f"cannot be read ({error.strerror}); make it readable for") from error
        if len(text) > MAX_FILE_BYTES:
            raise self._missing(f"has more than {MAX_FILE_BYTES} characters; name the file of a credential for")
        return text.strip()

    def _called(self) -> str:
        try:
            value = self._source()
        except SnaplineError:
            raise
        except Exception as error:
            raise UserCodeError(f"{self!r} raised {type(error).__name__}") from error
        if not isinstance(value, str) or not value:
            kind = "an empty string" if value == "" else type(value).__name__
            raise UserCodeError(f"{self!r} returned {kind}; it must return the credential as text")
        return value

    def _not_empty(self, value: str | None, problem: str) -> str:
        if not value:
            raise self._missing(problem)
        return value

    def _missing(self, problem: str) -> ConfigurationError:
        host, pid = os.uname().nodename, os.getpid()
        return ConfigurationError(
            f"{self!r} {problem} the driver and every executor of the job (this is process {pid} on {host})"
        )

    def __repr__(self) -> str:
        if self._kind == "given":
            return "Secret(***)"
        source = self._source
        shown = getattr(source, "__qualname__", type(source).__name__) if self._kind == "call" else repr(source)
        return f"Secret.{self._kind}({shown})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return self._kind == other._kind and bool(self._source == other._source)

    def __hash__(self) -> int:
        return hash((self._kind, self._source))

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._kind, self._source)


SecretLike: TypeAlias = Secret | str
"""A `Secret`, or the credential itself as text."""


def _made(kind: str, source: Any) -> Secret:
    secret = object.__new__(Secret)
    secret._kind, secret._source = kind, source
    return secret


def without_secrets(text: str, values: Iterable[str]) -> str:
    """`text`, for example what a library says about an error, with every occurrence of these values replaced."""
    for value in sorted(set(values), key=len, reverse=True):
        if len(value) >= MIN_HIDDEN_CHARACTERS:
            text = text.replace(value, "***")
    return text

"""The settings of a job as plain data, to be stored and shown: of secrets only the references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_type_hints

import msgspec

from snapline.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
    Secret,
    StorageOptions,
)

HIDDEN = "***"

_RESTARTS: Mapping[str, type[RestartStrategy]] = {
    kind.__name__: kind for kind in (NoRestart, FixedDelay, FailureRate, ExponentialDelay)
}
_LOGIN = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]*(?=@)")
"""User and password in a URL."""

_ACL_DIGEST = re.compile(r"digest:([^:,]*):[^,]*?(?=:[cdrwa]+(?:,|$))")
"""The hash of a password in an ACL of ZooKeeper."""

T = TypeVar("T")


def plain_settings(settings: object) -> dict[str, Any]:
    """The fields of settings. Options of the storage are shown by their names, and no secret by its value."""
    assert is_dataclass(settings)
    return {item.name: _plain(getattr(settings, item.name)) for item in fields(settings)}


def plain_restart(restart: RestartStrategy) -> dict[str, Any]:
    return {"strategy": type(restart).__name__, **plain_settings(restart)}


def settings_of_plain(settings: T, plain: Mapping[str, Any]) -> T:
    """`settings`, which are new and nobody else's, with those of the values that they know.

    They are to be shown: secrets that were no reference cannot be resolved. Raises `msgspec.ValidationError`.
    """
    hints = get_type_hints(type(settings))
    for item in fields(settings):  # type: ignore[arg-type]
        if item.name in plain:
            value = msgspec.convert(plain[item.name], hints[item.name], dec_hook=_of_plain)
            object.__setattr__(settings, item.name, value)
    return settings


def restart_of_plain(plain: Mapping[str, Any]) -> RestartStrategy:
    return settings_of_plain(_RESTARTS.get(plain.get("strategy", ""), NoRestart)(), plain)


def _plain(value: Any) -> Any:
    match value:
        case Secret():
            return value.reference
        case StorageOptions():
            return {scheme: sorted(options) for scheme, options in value.schemes.items()}
        case Enum():
            return value.value
        case str():
            return _ACL_DIGEST.sub(rf"digest:\1:{HIDDEN}", _LOGIN.sub(HIDDEN, value))
        case tuple() | list():
            return [_plain(item) for item in value]
    return value


def _of_plain(kind: type, value: Any) -> Any:
    if kind is StorageOptions:
        return StorageOptions({scheme: dict.fromkeys(names, HIDDEN) for scheme, names in value.items()})
    where, _, source = str(value).partition(":")
    made = {"env": Secret.env, "file": Secret.file}.get(where) if source else None
    return Secret.of(HIDDEN, "secret") if made is None else made(source)

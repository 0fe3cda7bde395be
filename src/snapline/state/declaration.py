"""The declaration of a keyed state, checked."""

from __future__ import annotations

from dataclasses import dataclass

from snapline.errors import ConfigurationError
from snapline.state.batch_keys import KeyTypes, key_types
from snapline.state.evolution import Change
from snapline.state.raw_keyed_state import RAW_KEYED_STATE
from snapline.state.state_info import StateKind
from snapline.state.state_types import StateType, has_views, resolve
from snapline.state.timers import TIMERS_STATE
from snapline.state.ttl import Lifetime, Ttl, as_ttl

_MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Declaration:
    """A state as a user declares it; `change` says how it takes over restored values of another type."""

    kind: StateKind
    name: str
    values: StateType
    namespace: KeyTypes | None
    lifetime: Ttl | None
    change: Change

    @classmethod
    def of(
        cls, kind: StateKind, name: str, declared: object, ttl: Lifetime | None, namespace: object, change: Change
    ) -> Declaration:
        """Raises `ConfigurationError` for a name or type that a state cannot have."""
        _check_name(name)
        values = resolve(declared)
        if values.arrow is not None and has_views(values.arrow):
            raise ConfigurationError(f"state {name!r} cannot hold {values}; declare string or binary instead of views")
        return cls(kind, name, values, namespace_types(namespace), as_ttl(ttl, f"state {name!r}"), change)

    @property
    def ttl_ms(self) -> int | None:
        return None if self.lifetime is None else self.lifetime.duration_ms


def namespace_types(declared: object) -> KeyTypes | None:
    return None if declared is None else key_types(resolve(declared), "namespace")


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name or len(name) > _MAX_NAME or not name.isprintable():
        raise ConfigurationError(f"{name!r} cannot be the name of a state; use 1 to {_MAX_NAME} printable characters")
    if name in (TIMERS_STATE, RAW_KEYED_STATE):
        raise ConfigurationError(
            f"{name!r} is the name that timers or raw state are stored under; use another name for the state"
        )

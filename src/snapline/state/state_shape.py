"""The shape of a state: what a declaration and stored state must agree on."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapline.errors import RestoreError
from snapline.state.batch_keys import KeyTypes
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_types import StateType
from snapline.state.value_tables import Layout


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of a state, the key columns of its entries, and the type of its values."""

    kind: StateKind
    layout: Layout
    values: StateType

    def __str__(self) -> str:
        under = ", ".join(f"{name} {types.kind}" for name, types in self.layout.parts() if name != "key")
        return f"{self.kind.value} of {self.values}" + (f" under {under}" if under else "")

    def is_like(self, other: Shape) -> bool:
        """Whether both differ at most in the type of their values."""
        return self.kind is other.kind and self.layout.types() == other.layout.types()


def check_key_type(key: KeyTypes, info: StateInfo, schema: pa.Schema) -> None:
    """Raise `RestoreError` if state was stored with keys of another type."""
    stored = schema.field("key").type
    if stored != key.kind:
        raise RestoreError(
            f"state {info.state!r} of {info.uid!r} was saved with keys of the type {stored}, and is keyed by "
            f"{key.kind} now; cast the key column to {stored}, or use another uid"
        )


def stored_shape(key: KeyTypes, info: StateInfo, schema: pa.Schema) -> Shape:
    """The shape of a stored state. Raises `RestoreError` if it has other keys."""
    check_key_type(key, info, schema)

    def types(name: str, what: str) -> KeyTypes | None:
        return KeyTypes(schema.field(name).type, what) if name in schema.names else None

    inner = types("map_key", "map key") or types("position", "position")
    values = StateType(None if info.encoding is ValueEncoding.PICKLE else schema.field("value").type)
    return Shape(info.kind, Layout(key, types("namespace", "namespace"), inner), values)

"""The shape of a state: what a declaration and stored state must agree on."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from snapline.state.batch_keys import KeyTypes
from snapline.state.state_info import StateInfo, StateKind, ValueEncoding
from snapline.state.state_types import StateType
from snapline.state.value_tables import Layout


@dataclass(frozen=True, slots=True)
class Shape:
    """What a state is: its kind, what its entries are filed under, and the type of its values."""

    kind: StateKind
    layout: Layout
    values: StateType

    def __str__(self) -> str:
        under = ", ".join(f"{name} {types.kind}" for name, types in self.layout.parts() if name != "key")
        return f"{self.kind.value} of {self.values}" + (f" under {under}" if under else "")

    def accepts(self, stored: Shape) -> bool:
        """Whether state that was stored with another shape can be read with this one."""
        return (
            self.kind is stored.kind
            and self.layout.types() == stored.layout.types()
            and self.values.accepts(stored.values)
        )


def stored_shape(key: KeyTypes, info: StateInfo, schema: pa.Schema) -> Shape:
    """What a state is, by its file."""

    def types(name: str, what: str) -> KeyTypes | None:
        return KeyTypes(schema.field(name).type, what) if name in schema.names else None

    inner = types("map_key", "map key") or types("position", "position")
    values = StateType(None if info.encoding is ValueEncoding.PICKLE else schema.field("value").type)
    return Shape(info.kind, Layout(key, types("namespace", "namespace"), inner), values)

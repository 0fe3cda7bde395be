"""Kinds of state, and the columns each is stored with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from snapline.errors import EngineError

PICKLED = {b"snapline.encoding": b"pickle"}
"""Metadata of a field other than `value` that holds pickles: keys may be any Python objects too."""


class StateKind(Enum):
    """What a state file holds, and thereby which columns it has."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"
    TIMERS = "timers"
    RAW = "raw"
    OPERATOR_LIST = "operator-list"
    OPERATOR_UNION = "operator-union"
    OPERATOR_BROADCAST = "operator-broadcast"
    RAW_OPERATOR = "raw-operator"

    @property
    def is_keyed(self) -> bool:
        return "key_group" in COLUMNS[self]


class ValueEncoding(Enum):
    """How the column `value` is to be understood: as it is, or as a pickle of each value."""

    ARROW = "arrow"
    PICKLE = "pickle"


_SINGLE = ("key_group", "key", "namespace", "value")
COLUMNS = {
    StateKind.VALUE: _SINGLE,
    StateKind.LIST: ("key_group", "key", "namespace", "position", "value"),
    StateKind.MAP: ("key_group", "key", "namespace", "map_key", "value"),
    StateKind.REDUCING: _SINGLE,
    StateKind.AGGREGATING: _SINGLE,
    StateKind.TIMERS: ("key_group", "key", "namespace", "time", "domain"),
    StateKind.RAW: ("key_group", "data"),
    StateKind.OPERATOR_LIST: ("value",),
    StateKind.OPERATOR_UNION: ("value",),
    StateKind.OPERATOR_BROADCAST: ("map_key", "value"),
    StateKind.RAW_OPERATOR: ("data",),
}
_OPTIONAL = "namespace"
_TTL = "last_update_ms"
_BYTES = (pa.binary(), pa.large_binary())
_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "key_group": (pa.int32(),),
    "position": (pa.int64(),),
    "time": (pa.int64(),),
    "domain": (pa.string(),),
    "data": _BYTES,
    _TTL: (pa.int64(),),
}


@dataclass(frozen=True, slots=True)
class StateInfo:
    """What a state file says about itself.

    `uid` is the operator's, `state` the name of the state in it. `max_parallelism` is none for operator state.
    `ttl_ms` is how long an entry lives after `last_update_ms`; none if entries live for ever.
    """

    uid: str
    state: str
    kind: StateKind
    max_parallelism: int | None
    encoding: ValueEncoding
    ttl_ms: int | None = None


def is_pickled(info: StateInfo, field: pa.Field) -> bool:
    """Whether the column of this field holds pickles."""
    if field.name == "value":
        return info.encoding is ValueEncoding.PICKLE
    return (field.metadata or {}).get(b"snapline.encoding") == b"pickle"


def column_names(info: StateInfo, schema: pa.Schema) -> list[str]:
    """The names of the columns in their order, checked against those in `schema`."""
    names = [name for name in COLUMNS[info.kind] if name != _OPTIONAL or name in schema.names]
    if info.ttl_ms is not None:
        names.append(_TTL)
    if sorted(names) != sorted(schema.names):
        raise EngineError(f"{info.kind.value} state {info.state!r} has columns {names}, not {schema.names}")
    for name in names:
        allowed = _BYTES if name == "value" and info.encoding is ValueEncoding.PICKLE else _TYPES.get(name)
        if allowed is not None and schema.field(name).type not in allowed:
            raise EngineError(f"column {name} of state {info.state!r} is {schema.field(name).type}, not {allowed[0]}")
    return names

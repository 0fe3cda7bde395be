"""Kinds of state, and the columns they are stored with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from snapline.errors import EngineError

PICKLED = {b"snapline.encoding": b"pickle"}
"""Metadata of a field other than `value` that holds pickles: map keys may be any Python objects too."""


class StateKind(Enum):
    """The kind of a state; decides the columns of its file."""

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
    """Whether the column `value` holds the values themselves, or a pickle of each."""

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

    `uid` is that of the operator, `state` the name of the state. `max_parallelism` is None for operator state.
    `ttl_ms` is how long an entry lives after `last_update_ms`; None if entries never expire.
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
    """The names of the columns in stored order. Raises `EngineError` if those of `schema` do not match."""
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

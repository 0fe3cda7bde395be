"""What Kafka knows of a message besides its value, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from snapline.errors import ConfigurationError

HEADERS = pa.list_(pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())]))

_TYPES: Mapping[str, pa.DataType] = {
    "key": pa.binary(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "headers": HEADERS,
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
}


def _headers(messages: Sequence[Any]) -> list[Any]:
    return [[{"name": name, "value": value} for name, value in message.headers() or ()] for message in messages]


_VALUES: Mapping[str, Callable[[Sequence[Any]], list[Any]]] = {
    "key": lambda messages: [message.key() for message in messages],
    # Negative where the producer gave none.
    "timestamp": lambda messages: [at if (at := message.timestamp()[1]) >= 0 else None for message in messages],
    "headers": _headers,
    "topic": lambda messages: [message.topic() for message in messages],
    "partition": lambda messages: [message.partition() for message in messages],
    "offset": lambda messages: [message.offset() for message in messages],
}


class MetadataColumns:
    """The columns that the user has asked for, behind those of the value. Pickled with the source."""

    def __init__(self, metadata: Any, value: pa.Schema, call: str) -> None:
        if metadata is None:
            wanted: dict[Any, Any] = {}
        elif isinstance(metadata, Mapping):
            wanted = dict(metadata)
        elif isinstance(metadata, Sequence) and not isinstance(metadata, str):
            wanted = {name: name for name in metadata}
        else:
            wanted = {metadata: metadata}
        for name, column in wanted.items():
            if name not in _TYPES:
                raise ConfigurationError(f"{call}: metadata has {name!r}; use some of {', '.join(map(repr, _TYPES))}")
            if not isinstance(column, str) or not column:
                raise ConfigurationError(f"{call}: metadata={{{name!r}: {column!r}}}; give the name of a column")
        names = [*value.names, *wanted.values()]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ConfigurationError(
                f"{call}: there would be two columns {doubled!r}; name those of metadata, for example "
                f"metadata={{'{next(iter(wanted))}': 'kafka_{next(iter(wanted))}'}}"
            )
        self._names = list(wanted)
        self.schema = pa.schema([*value, *(pa.field(wanted[name], _TYPES[name]) for name in wanted)])
        """The columns of the value and then these."""

    def added(self, rows: pa.RecordBatch, messages: Sequence[Any], kept: pa.Array | None) -> pa.RecordBatch:
        """The rows of `messages` with their metadata; `kept` has the number of the message of each row."""
        if not self._names:
            return rows
        columns = [pa.array(_VALUES[name](messages), _TYPES[name]) for name in self._names]
        if kept is not None:
            columns = [column.take(kept) for column in columns]
        return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=self.schema)

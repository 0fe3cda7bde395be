from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.connectors.formats.registry_kit import registry_server

from snapline.connectors.formats import Avro, Json, Raw
from snapline.connectors.kafka.message_rows import (
    MessageParts,
    kept_batches,
    kept_bytes,
    largest_bytes,
    produce_all,
)
from snapline.errors import ConfigurationError, TransientError, UserCodeError

ROWS = pa.record_batch({"k": ["a", None], "n": pa.array([1, 2]), "at": pa.array([7, None], pa.timestamp("us"))})


class Client:
    """Takes messages, and has room for `room` of them at a time."""

    def __init__(self, room: int = 1000) -> None:
        self.taken: list[tuple[Any, ...]] = []
        self.room = room

    def produce(self, *message: Any) -> None:
        if not self.room:
            raise BufferError
        self.room -= 1
        self.taken.append(message)


def encoded(rows: pa.RecordBatch, **settings: Any) -> pa.RecordBatch:
    parts = MessageParts("sink", settings.pop("format", Json()), **settings)
    return parts.encoder(rows.schema).encode(rows)


def test_all_columns_are_in_the_value_but_those_with_another_place() -> None:
    messages = encoded(ROWS, key_columns=("k",), timestamp="at")
    assert messages.to_pylist() == [
        {"value": b'{"k":"a","n":1}', "key": b"a", "timestamp": 0},
        {"value": b'{"k":null,"n":2}', "key": None, "timestamp": 0},
    ]


def test_a_registry_that_is_away_heals_while_the_job_runs() -> None:
    with registry_server() as server:
        parts = MessageParts("sink", Avro(registry=server.url, subject="s"), ("n",))
        parts.check(ROWS.schema)
        server.answer = 503, b"{}"
        with pytest.raises(TransientError, match="the schema registry failed"):
            parts.encoder(ROWS.schema)


def test_times_are_milliseconds() -> None:
    rows = pa.record_batch({"x": pa.array([1]), "at": pa.array([1_234_567], pa.timestamp("us", "Europe/Berlin"))})
    assert encoded(rows, timestamp="at").column("timestamp").to_pylist() == [1234]
    early = pa.record_batch({"x": pa.array([1]), "at": pa.array([-5], pa.int64())})
    with pytest.raises(UserCodeError, match="'at' has a time before 1970"):
        encoded(early, timestamp="at")


def test_a_key_of_several_columns_has_a_format() -> None:
    messages = encoded(ROWS, key_columns=("k", "n"), key_format=Json(), value_columns=("n",))
    assert messages.column("key").to_pylist() == [b'{"k":"a","n":1}', b'{"k":null,"n":2}']
    assert messages.column("value").to_pylist() == [b'{"n":1}', b'{"n":2}']


@pytest.mark.parametrize(
    "headers",
    [
        pa.array([[("a", b"1")], None], pa.map_(pa.string(), pa.binary())),
        pa.array([[("a", "1")], None], pa.map_(pa.string(), pa.string())),
        pa.array(
            [[{"name": "a", "value": b"1"}], None], pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()}))
        ),
    ],
)
def test_headers_are_maps_or_lists(headers: pa.Array) -> None:
    rows = pa.record_batch([pa.array([1, 2]), headers], names=["x", "h"])
    assert encoded(rows, headers="h").column("headers").to_pylist() == [[("a", b"1")], None]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"key_columns": ("gone",)}, "key names the column 'gone', and the rows have k, n, at"),
        ({"value_columns": ("gone",)}, "value_columns names the column 'gone'"),
        ({"key_columns": ("n",)}, "key='n' is a column of int64; it has to be text or bytes"),
        ({"partition": "k"}, "partition='k' is a column of string; it has to be whole numbers"),
        ({"timestamp": "k"}, "timestamp='k' is a column of string; it has to be timestamps"),
        ({"headers": "k"}, "headers='k' is a column of string; it has to be map<string, binary>"),
        ({"format": Raw()}, "Raw"),
    ],
)
def test_columns_that_do_not_fit_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        encoded(ROWS, **settings)


def test_a_value_needs_a_column() -> None:
    rows = pa.record_batch({"at": pa.array([1])})
    with pytest.raises(ConfigurationError, match="no column is left for the value"):
        encoded(rows, timestamp="at")


def test_a_number_that_is_no_partition() -> None:
    rows = pa.record_batch({"x": pa.array([1]), "p": pa.array([1 << 40])})
    with pytest.raises(UserCodeError, match="'p' has a wrong value"):
        encoded(rows, partition="p")


def test_the_largest_message_counts_with_its_key() -> None:
    assert largest_bytes(encoded(ROWS, key_columns=("k",), value_columns=("n",))) == len(b'{"n":1}') + 1
    assert largest_bytes(encoded(ROWS, value_columns=("n",))) == len(b'{"n":1}')
    nothing = pa.record_batch({"v": pa.array([None], pa.binary())})
    assert largest_bytes(encoded(nothing, format=Raw(column="v"))) == 0


def test_messages_are_kept_as_they_are() -> None:
    messages = encoded(ROWS, key_columns=("k",), timestamp="at")
    assert list(kept_batches(kept_bytes([messages, messages]))) == [messages, messages]


def test_messages_are_produced_in_order_and_wait_for_room() -> None:
    client = Client(room=1)

    def wait() -> None:
        client.room += 1

    produce_all(client, "t", encoded(ROWS, value_columns=("n",)), wait)  # type: ignore[arg-type]
    produce_all(client, "t", encoded(ROWS, key_columns=("k",), value_columns=("n",)), wait)  # type: ignore[arg-type]
    produce_all(client, "t", encoded(ROWS, timestamp="at", value_columns=("n",)), wait)  # type: ignore[arg-type]
    assert client.taken == [
        ("t", b'{"n":1}'),
        ("t", b'{"n":2}'),
        ("t", b'{"n":1}', b"a"),
        ("t", b'{"n":2}', None),
        ("t", b'{"n":1}', None, -1, None, None, 0, []),
        ("t", b'{"n":2}', None, -1, None, None, 0, []),
    ]

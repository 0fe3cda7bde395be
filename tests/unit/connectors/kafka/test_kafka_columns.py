from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.connectors.kafka.message_kit import Message

from snapline.connectors.kafka.kafka_columns import MetadataColumns
from snapline.errors import ConfigurationError

VALUE = pa.schema([("x", pa.int64())])


def test_columns_are_added() -> None:
    columns = MetadataColumns(
        {"key": "k", "timestamp": "t", "headers": "h", "topic": "n", "offset": "o"}, VALUE, "Kafka"
    )
    messages = [
        Message(("a", 0, 4), named=b"k", marked=[("h", b"1"), ("i", None)], sent_ms=1000),
        Message(("a", 0, 5)),
        Message(("a", 0, 6)),
    ]
    rows = pa.record_batch([pa.array([1, 3])], schema=VALUE)
    found = columns.added(rows, messages, pa.array([0, 2]))
    assert found.schema == columns.schema
    assert found.to_pylist() == [
        {
            "x": 1,
            "k": b"k",
            "t": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC),
            "h": [{"name": "h", "value": b"1"}, {"name": "i", "value": None}],
            "n": "a",
            "o": 4,
        },
        {"x": 3, "k": None, "t": None, "h": [], "n": "a", "o": 6},
    ]


def test_no_columns_change_nothing() -> None:
    rows = pa.record_batch([pa.array([1])], schema=VALUE)
    assert MetadataColumns(None, VALUE, "Kafka").added(rows, [Message(("a", 0, 0))], None) is rows
    assert MetadataColumns("partition", VALUE, "Kafka").schema.names == ["x", "partition"]


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (["value"], "metadata has 'value'; use some of 'key'"),
        ({"key": ""}, "give the name of a column"),
        ({"key": "x"}, "two columns 'x'"),
    ],
)
def test_wrong_columns(metadata: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        MetadataColumns(metadata, VALUE, "Kafka")

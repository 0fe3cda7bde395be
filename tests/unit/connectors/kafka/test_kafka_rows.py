from __future__ import annotations

import pytest
from tests.unit.connectors.kafka.message_kit import Message

import snapline as sl
from snapline.connectors.kafka.kafka_columns import MetadataColumns
from snapline.connectors.kafka.kafka_rows import message_rows, runs_of
from snapline.contracts.source import BadRow, fail
from snapline.errors import UserCodeError

JSON = sl.formats.Json("x BIGINT")


@pytest.mark.parametrize("is_one_topic", [True, False])
def test_each_partition_has_one_run_in_its_order(is_one_topic: bool) -> None:
    mixed = [Message(("a", partition, offset)) for offset in range(3) for partition in (1, 0)]
    messages, runs = runs_of(list(mixed), is_one_topic=is_one_topic)
    assert runs == [(("a", 0), 0, 3), (("a", 1), 3, 6)]
    assert [message.at for message in messages] == sorted(message.at for message in mixed)


def test_messages_that_are_in_runs_stay_as_they_are() -> None:
    given = [Message(("b", 0, 7)), Message(("b", 0, 8)), Message(("a", 0, 3))]
    messages, runs = runs_of(given)
    assert messages is given
    assert runs == [(("b", 0), 0, 2), (("a", 0), 2, 3)]


def test_bad_messages_leave_their_runs() -> None:
    messages = [
        Message(("a", 0, 0), b'{"x": 1}'),
        Message(("a", 0, 1), b"\xff"),
        Message(("a", 1, 9), b"{"),
        Message(("a", 2, 5), b'{"x": 2}'),
    ]
    messages, runs = runs_of(messages)
    columns = MetadataColumns(["offset"], JSON.schema(), "Kafka")
    bad: list[BadRow] = []
    rows, counts = message_rows(messages, runs, JSON.decoder(), columns, bad.append)
    assert rows.to_pylist() == [{"x": 1, "offset": 0}, {"x": 2, "offset": 5}]
    assert counts == [1, 0, 1]
    assert [(each.file, each.line, each.text) for each in bad] == [("a-0", 1, "\\xff"), ("a-1", 9, "{")]
    with pytest.raises(UserCodeError, match="offset 1 of the partition a-0"):
        message_rows(messages, runs, JSON.decoder(), columns, fail)

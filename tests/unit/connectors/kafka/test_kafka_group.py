from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from snapline.connectors.kafka.kafka_client import KafkaConnection
from snapline.connectors.kafka.kafka_group import MAX_CHECKPOINTS, GroupOffsets


class Commits:
    """Takes commits as a consumer does."""

    def __init__(self) -> None:
        self.all: list[dict[int, int]] = []
        self.fails = False

    def commit(self, *, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.all.append({each.partition: each.offset for each in offsets})


@pytest.fixture
def group() -> GroupOffsets:
    return GroupOffsets("g", KafkaConnection("Kafka", "h:1", {}))


def test_exactly_what_completed_is_committed(group: GroupOffsets) -> None:
    commits: Any = Commits()
    for checkpoint in range(1, 6):
        group.record(checkpoint, {("t", 0): checkpoint * 10, ("t", 1): 7})
    group.aborted(2)
    group.completed(2, commits)
    group.completed(9, commits)
    assert commits.all == []
    for checkpoint in range(3, 6):
        group.record(checkpoint, {("t", 0): checkpoint * 10, ("t", 1): 7})
    group.completed(4, commits)
    group.completed(3, commits)  # settled
    assert commits.all == [{0: 40, 1: 7}]
    group.completed(5, commits)
    assert commits.all[1:] == [{0: 50}]


def test_commits_that_fail_are_told_once_and_made_up_for(group: GroupOffsets, caplog: pytest.LogCaptureFixture) -> None:
    commits: Any = Commits()
    commits.fails = True
    for checkpoint in (1, 2):
        group.record(checkpoint, {("t", 0): 5})
        group.completed(checkpoint, commits)
    assert caplog.text.count("cannot commit offsets of the group 'g'") == 1
    commits.fails = False
    group.record(3, {("t", 0): 5})
    group.completed(3, commits)
    assert commits.all == [{0: 5}]
    group.answered(KafkaError(KafkaError._TRANSPORT), [])
    group.answered(None, [])


def test_open_checkpoints_are_limited(group: GroupOffsets) -> None:
    commits: Any = Commits()
    for checkpoint in range(MAX_CHECKPOINTS + 1):
        group.record(checkpoint, {("t", 0): checkpoint})
    group.completed(0, commits)
    assert commits.all == []

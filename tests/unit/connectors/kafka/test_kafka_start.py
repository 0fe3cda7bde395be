from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, cast

import pytest

from snapline.connectors.kafka.kafka_cluster import KafkaCluster, Partition
from snapline.connectors.kafka.kafka_start import EARLIEST, Reset, StartRule, gone
from snapline.errors import ConfigurationError

A, B = ("t", 0), ("t", 1)


class Offsets:
    """Answers as brokers would: offsets 5 to 10, a group with 7 in the first partition."""

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 5)

    def ends(self, partitions: Iterable[Partition], *, is_committed: bool) -> dict[Partition, int]:
        return dict.fromkeys(partitions, 9 if is_committed else 10)

    def at_time(self, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int]:
        return {partition: 6 if partition == A else -1 for partition in partitions}

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return {A: 7}


def offsets(start: Any, reset: Reset = "earliest") -> dict[Partition, int]:
    return StartRule.of(start, "g", "Kafka").offsets(
        cast(KafkaCluster, Offsets()), [A, B], group="g", reset=reset, is_committed=True, call="Kafka"
    )


@pytest.mark.parametrize(
    ("start", "reset", "found"),
    [
        ("earliest", "fail", {A: EARLIEST, B: EARLIEST}),
        ("latest", "fail", {A: 9, B: 9}),
        (1000, "fail", {A: 6, B: 9}),
        ("group", "earliest", {A: 7, B: EARLIEST}),
        ("group", "latest", {A: 7, B: 9}),
        ({A: 8}, "fail", {A: 8, B: EARLIEST}),
        ({A: 3}, "earliest", {A: EARLIEST, B: EARLIEST}),
        ({A: 3, B: 99}, "latest", {A: 10, B: 10}),
    ],
)
def test_offsets(start: Any, reset: Reset, found: dict[Partition, int]) -> None:
    assert offsets(start, reset) == found


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("group", "'g' has no offset for partition 1 of topic 't'"),
        ({A: 3}, "retention has deleted it"),
        ({A: 11}, "created anew"),
        ({("u", 0): 3}, "no partition of the topics"),
    ],
)
def test_offsets_that_are_not_there(start: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        offsets(start, "fail")


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ("first", "use 'earliest'"),
        (-1, "use 'earliest'"),
        (True, "use 'earliest'"),
        (dt.datetime(2020, 1, 1), "has no time zone"),
        ({"t": 3}, "give offsets as"),
        ({A: -3}, "give offsets as"),
    ],
)
def test_wrong_starts(start: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        StartRule.of(start, "g", "Kafka")


def test_a_start_at_a_group_needs_one() -> None:
    with pytest.raises(ConfigurationError, match="give group="):
        StartRule.of("group", None, "Kafka")


def test_times() -> None:
    assert StartRule.of(dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), None, "Kafka") == StartRule("time", 1000)


def test_the_error_names_everything() -> None:
    text = gone("Kafka", A, 3, 5, 10)
    for part in ("offset 3", "partition 0", "'t'", "from 5 to 10", "reset='earliest'", "reset='latest'"):
        assert part in text

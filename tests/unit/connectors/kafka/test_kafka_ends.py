from __future__ import annotations

from snapline.connectors.kafka.kafka_cluster import Partition
from snapline.connectors.kafka.kafka_ends import MarkedEnds


def test_partitions_are_read_when_they_reach_the_ends_they_had() -> None:
    ends: dict[Partition, int | None] = {("t", 0): 5, ("t", 1): None, ("t", 2): 0, ("t", 3): 9}
    at: dict[Partition, int | None] = {("t", 0): 3, ("t", 1): 1, ("t", 2): -2, ("t", 3): None}
    marked = MarkedEnds(lambda partition: ends[partition])
    assert marked.are_read(at.get), "nobody has asked"
    marked.mark(at)
    assert not marked.are_read(at.get)
    ends["t", 0] = 50  # came later
    at["t", 0] = 5
    assert not marked.are_read(at.get), "no broker has said where partition 1 ends"
    ends["t", 1] = 1
    assert marked.are_read(at.get)

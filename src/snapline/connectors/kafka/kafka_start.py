"""Where reading a topic begins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from snapline.connectors.kafka.kafka_cluster import KafkaCluster, Partition
from snapline.errors import ConfigurationError

Start: TypeAlias = Literal["earliest", "latest", "group"] | dt.datetime | int | Mapping[Partition, int]
"""The oldest messages, only new ones, the offsets of a group, a time (milliseconds since 1970) or given offsets."""

Reset: TypeAlias = Literal["fail", "earliest", "latest"]

EARLIEST = -2
"""In splits: the oldest message there is when reading begins, as librdkafka writes it."""

RESETS = ("fail", "earliest", "latest")


@dataclass(frozen=True, slots=True)
class StartRule:
    """A start that was checked. `kind` is "earliest", "latest", "group", "time" or "given"."""

    kind: str
    time_ms: int = 0
    given: tuple[tuple[Partition, int], ...] = ()

    @classmethod
    def of(cls, start: Any, group: str | None, call: str) -> StartRule:
        """What the user has given; raises `ConfigurationError`."""
        if isinstance(start, Mapping):
            return cls("given", given=tuple(_given(start, call)))
        if isinstance(start, dt.datetime):
            if start.tzinfo is None:
                raise ConfigurationError(
                    f"{call}: start={start!r} has no time zone; add tzinfo=datetime.UTC, or another"
                )
            return cls("time", time_ms=round(start.timestamp() * 1000))
        if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
            return cls("time", time_ms=start)
        if start == "group" and group is None:
            raise ConfigurationError(f"{call}: start='group' needs the name of the group; give group='...'")
        if start in ("earliest", "latest", "group"):
            return cls(start)
        raise ConfigurationError(
            f"{call}: start={start!r}; use 'earliest', 'latest', 'group', a datetime with a time zone, milliseconds "
            "since 1970, or {('topic', 0): 42}"
        )

    def offsets(
        self,
        cluster: KafkaCluster,
        partitions: Sequence[Partition],
        *,
        group: str | None,
        reset: Reset,
        is_committed: bool,
        call: str,
    ) -> dict[Partition, int]:
        """The first offset to read of each partition; `EARLIEST` where that is the oldest."""
        if self.kind == "latest":
            return cluster.ends(partitions, is_committed=is_committed)
        if self.kind == "time":
            found = cluster.at_time(partitions, self.time_ms)
            late = [partition for partition, offset in found.items() if offset < 0]
            return {**found, **cluster.ends(late, is_committed=is_committed)}
        if self.kind == "group":
            assert group is not None
            found = cluster.committed(group, partitions)
            lacking = [partition for partition in partitions if partition not in found]
            if lacking and reset == "fail":
                raise ConfigurationError(
                    f"{call}: the group {group!r} has no offset for partition {lacking[0][1]} of topic "
                    f"{lacking[0][0]!r}; use reset='earliest' or 'latest' for such partitions, or another start"
                )
            if reset == "latest":
                return {**found, **cluster.ends(lacking, is_committed=is_committed)}
            return {**dict.fromkeys(lacking, EARLIEST), **found}
        if self.kind == "given":
            return {**dict.fromkeys(partitions, EARLIEST), **self._given_offsets(cluster, partitions, reset, call)}
        return dict.fromkeys(partitions, EARLIEST)

    def _given_offsets(
        self, cluster: KafkaCluster, partitions: Sequence[Partition], reset: Reset, call: str
    ) -> dict[Partition, int]:
        given = dict(self.given)
        unknown = [partition for partition in given if partition not in partitions]
        if unknown:
            raise ConfigurationError(
                f"{call}: start has an offset for {unknown[0]!r}, which is no partition of the topics that are read"
            )
        lows, highs = cluster.earliest(given), cluster.ends(given, is_committed=False)
        for partition, offset in given.items():
            if not lows[partition] <= offset <= highs[partition]:
                if reset == "fail":
                    raise ConfigurationError(gone(call, partition, offset, lows[partition], highs[partition]))
                given[partition] = EARLIEST if reset == "earliest" else highs[partition]
        return given


def gone(call: str, partition: Partition, offset: int, low: int, high: int) -> str:
    """What to say about an offset that is not there."""
    topic, number = partition
    why = "retention has deleted it" if offset < low else "the topic was created anew or lost its newest messages"
    return (
        f"{call}: offset {offset} of partition {number} of topic {topic!r} is gone, its offsets go from {low} to "
        f"{high}: {why}. To go on without what is missing use reset='earliest' (go on at {low}) or reset='latest' (at "
        f"{high}); for the future keep messages longer (retention.ms, retention.bytes)"
    )


def _given(start: Mapping[Any, Any], call: str) -> list[tuple[Partition, int]]:
    found: list[tuple[Partition, int]] = []
    for partition, offset in start.items():
        match partition, offset:
            case (str(topic), int(number)), int(at) if number >= 0 and at >= 0:
                found.append(((topic, number), at))
            case _:
                raise ConfigurationError(
                    f"{call}: start={{{partition!r}: {offset!r}}}; give offsets as {{('topic', 0): 42}}"
                )
    return found

"""Questions about topics and offsets that the Kafka source asks on the driver."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from snapline.connectors.kafka.kafka_client import REQUEST_TIMEOUT_S, KafkaConnection, is_away, is_refused
from snapline.errors import ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

T = TypeVar("T")

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""

_RUNNING_TIMEOUT_S = 3.0
"""Of a job that runs: it asks again later anyway, and should not wait for the answer when it ends."""

_STEP_S = 1.0
_PAUSE_S = 0.1
_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The topics that are read: those with `names`, or all whose whole name matches `pattern`."""

    names: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def of(cls, topics: Any, pattern: Any, call: str) -> TopicChoice:
        """What the user has given; raises `ConfigurationError`."""
        if (topics is None) == (pattern is None):
            raise ConfigurationError(
                f"{call}: give topics='clicks', topics=['a', 'b'] or pattern='click-.*', one of them"
            )
        if pattern is not None:
            try:
                re.compile(pattern)
            except (re.error, TypeError) as error:
                raise ConfigurationError(f"{call}: pattern={pattern!r} is no regular expression: {error}") from None
            return cls(pattern=pattern)
        names = [topics] if isinstance(topics, str) else topics
        if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) and name for name in names):
            raise ConfigurationError(f"{call}: topics={topics!r}; give a name, or a list of names")
        doubled = sorted({name for name in names if list(names).count(name) > 1})
        if doubled:
            raise ConfigurationError(f"{call}: topics={topics!r} has {doubled[0]!r} twice")
        return cls(tuple(names))

    def __str__(self) -> str:
        return f"pattern={self.pattern!r}" if self.pattern is not None else f"topics={list(self.names)!r}"

    def chosen(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Of all topics those that are read. Internal ones only if the pattern begins like them."""
        if self.pattern is None:
            return {name: counts[name] for name in self.names if counts.get(name)}
        rule, internal = re.compile(self.pattern), self.pattern.startswith("__")
        return {
            name: count
            for name, count in sorted(counts.items())
            if count and rule.fullmatch(name) and (internal or not name.startswith("__"))
        }

    def missing(self, counts: Mapping[str, int], call: str) -> ConfigurationError | None:
        """The error to raise if there is nothing of that kind."""
        lacking = [name for name in self.names if not counts.get(name)]
        visible = sorted(name for name in counts if not name.startswith("__"))
        if lacking:
            alike = difflib.get_close_matches(lacking[0], visible, _MAX_SHOWN)
            hint = f"did you mean {', '.join(map(repr, alike))}?" if alike else f"there are {_some(visible)}."
            return ConfigurationError(
                f"{call}: there is no topic {lacking[0]!r}; {hint} Create it, correct the name, check that this user "
                "may describe it, or use allow_missing=True to wait for it"
            )
        if self.pattern is not None and not self.chosen(counts):
            return ConfigurationError(
                f"{call}: no topic matches pattern={self.pattern!r}; there are {_some(visible)}. The pattern has to "
                "match the whole name; use allow_missing=True to wait for topics"
            )
        return None


class KafkaCluster:
    """Asks the brokers. One that does not answer is asked again for `REQUEST_TIMEOUT_S`, or less if the job runs.

    All methods raise `TransientError` if none answers, and `ConfigurationError` for wrong credentials.
    """

    def __init__(self, connection: KafkaConnection, *, is_running: bool = False) -> None:
        self._connection = connection
        self._is_running = is_running
        self._problems: list[KafkaError] = []
        self._admin = connection.admin(self._problems.append)

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has."""

        def ask() -> dict[str, int]:
            found = self._admin.list_topics(timeout=_STEP_S).topics
            return {name: len(topic.partitions) for name, topic in found.items()}

        return self._asked(ask, "list the topics")

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Offset of the oldest message."""
        return self._offsets(partitions, _spec().earliest(), is_committed=False)

    def ends(self, partitions: Iterable[Partition], *, is_committed: bool) -> dict[Partition, int]:
        """Offset of the next message; if `is_committed`, that of the oldest transaction that is open."""
        return self._offsets(partitions, _spec().latest(), is_committed=is_committed)

    def at_time(self, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int]:
        """Offset of the first message that is not older; -1 if there is none."""
        return self._offsets(partitions, _spec().for_timestamp(time_ms), is_committed=False)

    def committed(self, group: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The offsets of a group, for those partitions that have one."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(topic, number) for topic, number in partitions]
        if not wanted:
            return {}

        def ask() -> dict[Partition, int]:
            asked = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=REQUEST_TIMEOUT_S
            )
            found = asked[group].result().topic_partitions
            return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

        return self._asked(ask, f"read the offsets of the group {group!r}")

    def _offsets(self, partitions: Iterable[Partition], spec: Any, *, is_committed: bool) -> dict[Partition, int]:
        from confluent_kafka import IsolationLevel, TopicPartition

        wanted = {TopicPartition(topic, number): spec for topic, number in partitions}
        if not wanted:
            return {}
        isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[Partition, int]:
            asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S)
            return {(each.topic, each.partition): answer.result().offset for each, answer in asked.items()}

        return self._asked(ask, "read the offsets of partitions")

    def _asked(self, ask: Callable[[], T], doing: str) -> T:
        from confluent_kafka import KafkaException

        deadline_s = time.monotonic() + (_RUNNING_TIMEOUT_S if self._is_running else REQUEST_TIMEOUT_S)
        while True:
            try:
                return ask()
            except KafkaException as error:
                problem: object = error
            self._admin.poll(_PAUSE_S)
            # Why a connection is refused is not in the answer, which only says that there is none.
            refused = next((each for each in self._problems if is_refused(each)), None)
            if refused is not None or not is_away(problem) or time.monotonic() > deadline_s:
                self._connection.fail(refused or problem, doing, is_running=self._is_running)


def _spec() -> Any:
    """Which offset of a partition to ask for. The client has no types for it."""
    from confluent_kafka import admin

    return getattr(admin, "OffsetSpec")  # noqa: B009  # not exported by name


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return f"{', '.join(map(repr, names[:_MAX_SHOWN]))}{more}" if names else "no topics that this user can see"

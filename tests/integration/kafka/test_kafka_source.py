"""The Kafka source with a real broker: where it starts, where it ends, what it does if something is gone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions
from tests.integration.kafka.source_kit import NUMBERS, Subtask, committed, eventually, producer, put

import snapline as sl
from snapline.connectors.kafka import kafka_cluster
from snapline.contracts.source import BadRow
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import ConfigurationError, TransientError, UserCodeError

pytestmark = pytest.mark.slow


def source_of(server: KafkaServer, topic: str, **options: Any) -> sl.Source:
    return sl.sources.Kafka(server.bootstrap, topic, **{"format": NUMBERS, **options})


@pytest.fixture
def filled(kafka: KafkaServer, topic: str) -> str:
    """A topic with 0 to 9 in partition 0 and 100 to 104 in partition 1, a second apart from 2020 on."""
    kafka.create_topic(topic, 2)
    for partition, first, count in ((0, 0, 10), (1, 100, 5)):
        for number in range(count):
            put(kafka, topic, [first + number], partition, timestamp=1_577_836_800_000 + number * 1000)
    return topic


ALL = [*range(10), *range(100, 105)]


# Starts and ends.


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("earliest", ALL),
        (dt.datetime(2020, 1, 1, 0, 0, 3, tzinfo=dt.UTC), [*range(3, 10), 103, 104]),
        (1_577_836_807_500, [8, 9]),
        (1_577_836_900_000, []),
        ("latest", []),
    ],
)
def test_starts(kafka: KafkaServer, filled: str, start: Any, expected: list[int]) -> None:
    with Subtask(source_of(kafka, filled, start=start)) as subtask:
        put(kafka, filled, [1000])
        assert sorted(subtask.to_rows(len(expected) + 1)) == [*expected, 1000]
    with Subtask(source_of(kafka, filled, start=start, bounded=True)) as subtask:
        put(kafka, filled, [2000])
        assert sorted(subtask.to_end()) == ([] if start == "latest" else [*expected, 1000])


def test_a_start_at_given_offsets_takes_the_others_from_the_earliest(kafka: KafkaServer, filled: str) -> None:
    source = source_of(kafka, filled, start={(filled, 0): 7}, bounded=True)
    with Subtask(source) as subtask:
        assert sorted(subtask.to_end()) == [7, 8, 9, *range(100, 105)]
    with pytest.raises(ConfigurationError, match=r"offset 70 of partition 0 of topic .* go from 0 to 10"):
        source_of(kafka, filled, start={(filled, 0): 70}, bounded=True).splits(1)
    for reset, expected in (("earliest", ALL), ("latest", ALL[10:])):
        with Subtask(source_of(kafka, filled, start={(filled, 0): 70}, bounded=True, reset=reset)) as subtask:
            assert sorted(subtask.to_end()) == expected
    with pytest.raises(ConfigurationError, match="no partition of the topics"):
        source_of(kafka, filled, start={("other", 0): 7}, bounded=True).splits(1)


def test_a_start_at_the_offsets_of_a_group(kafka: KafkaServer, filled: str) -> None:
    group = f"group of {filled}"
    with pytest.raises(ConfigurationError, match="has no offset for partition 0"):
        source_of(kafka, filled, start="group", group=group, bounded=True).splits(1)
    with Subtask(source_of(kafka, filled, start="group", group=group, bounded=True, reset="earliest")) as subtask:
        assert sorted(subtask.to_end()) == ALL
        assert subtask.reader.positions(1) == []
        subtask.reader.checkpoint_completed(1)
    assert committed(kafka, group, filled, 2) == [10, 5]
    put(kafka, filled, [10, 11])
    with Subtask(source_of(kafka, filled, start="group", group=group, bounded=True)) as subtask:
        assert subtask.to_end() == [10, 11]
    with Subtask(source_of(kafka, filled, start="group", group="new", bounded=True, reset="latest")) as subtask:
        assert subtask.to_end() == []


def test_a_bounded_end_is_fixed_when_the_job_starts(kafka: KafkaServer, filled: str) -> None:
    source = source_of(kafka, filled, bounded=True, batch_rows=3)
    assert source.discovery_interval_ms is None
    splits = source.splits(1)
    put(kafka, filled, range(10, 50))
    with Subtask(source, [(split, None) for split in splits]) as subtask:
        subtask.to_rows(4)
        positions = subtask.reader.positions(1)
    with Subtask(source, positions) as again:
        assert sorted(subtask.numbers + again.to_end()) == ALL
        assert again.ended == [split for split in splits if split in again.ended]


def test_partitions_come_in_runs_in_their_order(kafka: KafkaServer, filled: str) -> None:
    with Subtask(source_of(kafka, filled, bounded=True, metadata={"partition": "p", "offset": "o"})) as subtask:
        subtask.to_end()
    assert [row["o"] for row in subtask.rows if row["p"] == 0] == list(range(10))
    assert [row["x"] for row in subtask.rows if row["p"] == 1] == list(range(100, 105))


def test_several_topics_and_patterns(kafka: KafkaServer, topic: str) -> None:
    for number in (1, 2):
        kafka.create_topic(f"{topic}-{number}")
        put(kafka, f"{topic}-{number}", [number])
    with Subtask(source_of(kafka, [f"{topic}-1", f"{topic}-2"], bounded=True)) as subtask:  # type: ignore[arg-type]
        assert sorted(subtask.to_end()) == [1, 2]
    source = sl.sources.Kafka(kafka.bootstrap, pattern=f"{topic}-.*", format=NUMBERS, metadata=["topic"])
    with Subtask(source) as subtask:
        subtask.to_rows(2)
        assert {row["x"]: row["topic"] for row in subtask.rows} == {1: f"{topic}-1", 2: f"{topic}-2"}


def test_metadata(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, [1], key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1_577_836_800_000)
    put(kafka, topic, [2], timestamp=1_577_836_800_001)
    source = source_of(
        kafka, topic, bounded=True, metadata=["key", "timestamp", "headers", "topic", "partition", "offset"]
    )
    with Subtask(source) as subtask:
        subtask.to_end()
    first, second = subtask.rows
    assert first == {
        "x": 1,
        "key": b"k",
        "timestamp": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "headers": [{"name": "a", "value": b"1"}, {"name": "a", "value": None}],
        "topic": topic,
        "partition": 0,
        "offset": 0,
    }
    assert (second["key"], second["headers"], second["offset"]) == (None, [], 1)


# Transactions and gaps.


def transaction(server: KafkaServer, topic: str, values: Any, *, commits: bool) -> None:
    client = producer(server, transactional_id=f"{topic}-{commits}")
    client.init_transactions(30)
    client.begin_transaction()
    put(server, topic, values, by=client)
    client.flush(30)
    if commits:
        client.commit_transaction(30)
    else:
        client.abort_transaction(30)


def test_transactions_that_are_aborted_are_not_read(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    transaction(kafka, topic, range(5), commits=True)
    transaction(kafka, topic, range(100, 105), commits=False)
    transaction(kafka, topic, range(5, 10), commits=True)
    transaction(kafka, topic, range(200, 203), commits=False)
    # The last offsets are those of aborted messages and of markers: no message ever comes at them.
    source = source_of(kafka, topic, bounded=True, group=f"group of {topic}", batch_rows=2)
    with Subtask(source) as subtask:
        assert subtask.to_end() == list(range(10))
    unbounded = source_of(kafka, topic)
    with Subtask(unbounded) as subtask:
        subtask.until(lambda: subtask.reader.positions(1)[0][1] == 22)
        positions = subtask.reader.positions(2)
        assert subtask.numbers == list(range(10))
    transaction(kafka, topic, [10], commits=True)
    with Subtask(unbounded, positions) as subtask:
        assert subtask.to_rows(1) == [10]
    with Subtask(source_of(kafka, topic, bounded=True, isolation="read_uncommitted")) as subtask:
        assert len(subtask.to_end()) == 19


def test_every_position_in_transactions_can_be_resumed(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    for number in range(4):
        transaction(kafka, topic, range(number * 3, number * 3 + 3), commits=number % 2 == 0)
    source = source_of(kafka, topic, bounded=True, batch_rows=1)
    seen = []
    with Subtask(source) as subtask:
        ended = False
        while not ended:
            seen.append((len(subtask.rows), subtask.reader.positions(1)))
            ended = subtask.once()
    assert subtask.numbers == [0, 1, 2, 6, 7, 8]
    for read, positions in {count: at for count, at in seen if at}.items():
        with Subtask(source, positions) as again:
            assert subtask.numbers[:read] + again.to_end() == subtask.numbers


def test_a_transaction_that_is_open_ends_a_bounded_source(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, [1, 2])
    client = producer(kafka, transactional_id=topic)
    client.init_transactions(30)
    client.begin_transaction()
    put(kafka, topic, [3], by=client)
    client.flush(30)
    bounded, latest = source_of(kafka, topic, bounded=True), source_of(kafka, topic, start="latest")
    with Subtask(bounded) as subtask, Subtask(latest) as later:
        assert subtask.to_end() == [1, 2]
        client.commit_transaction(30)
        assert later.to_rows(1) == [3]


# What is gone.


@pytest.fixture
def shortened(kafka: KafkaServer, topic: str) -> tuple[str, list[Any]]:
    """A topic with 0 to 9 of which 0 to 4 are deleted, and a position at 2."""
    kafka.create_topic(topic)
    put(kafka, topic, range(10))
    admin = kafka.admin()
    for done in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        done.result(30)
    return topic, [([topic, 0, -2, None], 2)]


def test_a_position_that_is_gone_fails(kafka: KafkaServer, shortened: tuple[str, list[Any]]) -> None:
    topic, positions = shortened
    with Subtask(source_of(kafka, topic), positions) as subtask, pytest.raises(ConfigurationError) as caught:
        subtask.to_rows(1)
    for part in ("offset 2 of partition 0", topic, "from 5 to 10", "retention", "reset='earliest'"):
        assert part in str(caught.value)


def test_a_position_that_is_gone_can_be_reset(
    kafka: KafkaServer, shortened: tuple[str, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    topic, positions = shortened
    with Subtask(source_of(kafka, topic, reset="earliest"), positions) as subtask:
        assert subtask.to_rows(5) == [5, 6, 7, 8, 9]
    assert "goes on at 5" in caplog.text
    with Subtask(source_of(kafka, topic, reset="latest"), positions) as subtask:
        subtask.until(lambda: "goes on at 10" in caplog.text)
        put(kafka, topic, [10])
        assert subtask.to_rows(1) == [10]
    beyond = [([topic, 0, -2, None], 200)]
    with Subtask(source_of(kafka, topic), beyond) as subtask, pytest.raises(ConfigurationError, match="created anew"):
        subtask.to_rows(1)
    with Subtask(source_of(kafka, topic, reset="earliest"), beyond) as subtask:
        assert subtask.to_rows(6) == [5, 6, 7, 8, 9, 10]


def test_missing_topics(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    with pytest.raises(ConfigurationError, match=rf"no topic '{topic}s'; did you mean '{topic}'"):
        source_of(kafka, f"{topic}s").discover(None)
    with pytest.raises(ConfigurationError, match="no topic matches pattern='nothing"):
        sl.sources.Kafka(kafka.bootstrap, pattern="nothing-.*", format=NUMBERS, bounded=True).splits(1)
    late = source_of(kafka, f"{topic}-later", allow_missing=True)
    splits, known = late.discover(None)
    assert splits == []
    kafka.create_topic(f"{topic}-later", 2)
    splits, known = late.discover(known)
    assert splits == [[f"{topic}-later", 0, -2, None], [f"{topic}-later", 1, -2, None]]
    assert late.discover(known)[0] == []


def test_topics_that_are_deleted(
    kafka: KafkaServer, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, 2)
    source = source_of(kafka, topic)
    quick = {"topic.metadata.propagation.max.ms": 500, "topic.metadata.refresh.interval.ms": 500}
    _, known = source.discover(None)
    kafka.create_topic(f"{topic}-other")
    put(kafka, f"{topic}-other", [1])
    both = [f"{topic}-other", topic]
    with (
        Subtask(source_of(kafka, topic, config=quick)) as strict,
        Subtask(source_of(kafka, both, config=quick, allow_missing=True)) as lenient,  # type: ignore[arg-type]
    ):
        strict.until(lambda: all(at is not None for _, at in strict.reader.positions(1)))
        lenient.until(lambda: all(at is not None for _, at in lenient.reader.positions(1)))
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        with pytest.raises(ConfigurationError, match=rf"of topic '{topic}' is gone: the topic was deleted"):
            strict.to_rows(1)
        lenient.until(lambda: len(lenient.ended) == 2)
        put(kafka, f"{topic}-other", [2])
        assert lenient.to_rows(2) == [1, 2]
    with pytest.raises(ConfigurationError, match="with 2 partitions is gone"):
        source.discover(known)


def test_a_topic_that_is_made_anew_before_the_reader_misses_it(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, [1, 2, 3])
    source = source_of(kafka, topic, allow_missing=True)
    with Subtask(source) as subtask:
        assert subtask.to_rows(3) == [1, 2, 3]
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        eventually(lambda: source.discover({topic: 1})[1] == {})
        kafka.create_topic(topic)
        put(kafka, topic, [4, 5])
        (split,), _ = source.discover({})
        subtask.reader.add_split(split, None)
        assert subtask.to_rows(5) == [1, 2, 3, 4, 5]


def test_partitions_that_are_added_are_found(kafka: KafkaServer, filled: str) -> None:
    source = source_of(kafka, filled, discovery="1s", start="latest")
    splits, known = source.discover(None)
    with Subtask(source, [(split, None) for split in splits]) as subtask:
        admin = kafka.admin()
        admin.create_partitions([NewPartitions(filled, 3)])[filled].result(30)
        eventually(lambda: len(admin.list_topics(filled).topics[filled].partitions) == 3)
        put(kafka, filled, [7], 2)
        new, known = source.discover(known)
        assert new == [[filled, 2, -2, None]]
        subtask.once()
        subtask.reader.add_split(new[0], None)
        assert subtask.to_rows(1) == [7]
    assert source.discover(known) == ([], known)


# Pauses, backlog, bad messages.


def test_splits_can_pause(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic, 2)
    put(kafka, topic, range(1000), 0)
    put(kafka, topic, range(1000, 2000), 1)
    with Subtask(source_of(kafka, topic, batch_rows=10)) as subtask:

        def at() -> dict[int, int]:
            return {split[1]: position for split, position in subtask.reader.positions(1)}

        subtask.to_rows(10)
        slow, fast = (split for split, _ in subtask.reader.positions(1))
        before = at()
        subtask.reader.pause_splits([fast])
        subtask.until(lambda: at()[0] == 1000)
        assert at()[1] == before[1]
        subtask.reader.pause_splits([slow])
        put(kafka, topic, [5000], 0)
        subtask.until(lambda: at()[1] == 1000)
        assert 5000 not in subtask.numbers
        subtask.reader.pause_splits([])
        assert sorted(subtask.to_rows(2001)) == [*range(2000), 5000]
        assert [number for number in subtask.numbers if number < 1000] == list(range(1000))


def test_backlog_is_reported(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, range(3000))
    reports: list[bool] = []
    with Subtask(source_of(kafka, topic, backlog=1000, batch_rows=100), report_backlog=reports.append) as subtask:
        subtask.to_rows(100)
        assert reports == [True]
        subtask.to_rows(3000)
        subtask.until(lambda: reports == [True, False])


def test_bad_messages(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic, 2)
    put(kafka, topic, [1, b"{nonsense", 2], 0)
    put(kafka, topic, [3, 4, b"[]", 5], 1)
    problem = pytest.raises(UserCodeError, match=rf"offset \d of the partition {topic}-\d cannot be read")
    with Subtask(source_of(kafka, topic, bounded=True)) as subtask, problem:
        subtask.to_end()
    bad: list[BadRow] = []
    source = source_of(kafka, topic, bounded=True, on_error="dead_letter", metadata=["offset", "partition"])
    with Subtask(source, bad_row=bad.append) as subtask:
        assert sorted(subtask.to_end()) == [1, 2, 3, 4, 5]
    assert {(row["partition"], row["offset"]) for row in subtask.rows} == {(0, 0), (0, 2), (1, 0), (1, 1), (1, 3)}
    assert sorted((each.file, each.line, each.text) for each in bad) == [
        (f"{topic}-0", 1, "{nonsense"),
        (f"{topic}-1", 2, "[]"),
    ]


# Groups.


def test_a_group_is_never_ahead_of_completed_checkpoints(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, range(100))
    group = f"group of {topic}"
    with Subtask(source_of(kafka, topic, group=group, batch_rows=10)) as subtask:
        at = []
        for checkpoint in range(1, 5):
            subtask.to_rows(checkpoint * 20)
            at.append(subtask.reader.positions(checkpoint)[0][1])
        subtask.to_rows(100)
        assert committed(kafka, group, topic) == [-1001]
        subtask.reader.checkpoint_aborted(1)
        subtask.reader.checkpoint_completed(2)
        eventually(lambda: (subtask.once(), committed(kafka, group, topic) == [at[1]])[1])
        subtask.reader.checkpoint_completed(9)  # not one of its own
        subtask.reader.checkpoint_completed(3)
        subtask.once()
    assert committed(kafka, group, topic) == [at[1]]


# Trouble with brokers.


def test_no_broker_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_cluster, "REQUEST_TIMEOUT_S", 1.0)
    source = sl.sources.Kafka("127.0.0.1:1", "clicks", format=NUMBERS)
    with pytest.raises(TransientError, match=r"is a broker running at 127\.0\.0\.1:1"):
        source.discover(None)


def test_discovery_waits_for_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka_cluster, "_RUNNING_TIMEOUT_S", 0.5)
    source = sl.sources.Kafka("127.0.0.1:1", "clicks", format=NUMBERS)
    for _ in range(2):
        assert source.discover({"clicks": 3}) == ((), {"clicks": 3})
    assert caplog.text.count("looked for again") == 1

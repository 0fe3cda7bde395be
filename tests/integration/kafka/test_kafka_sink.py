"""The Kafka sink against real brokers: every place where processes and brokers can die, zombies, and errors."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.kafka.kafka_sink_kit import DEADLINE_S, Task, numbers, read_committed
from tests.servers_kit import or_skip

import snapline as sl
from snapline.connectors.kafka import kafka_transactions, message_rows
from snapline.contracts.sink import CommitResult
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import ConfigurationError, FencedError, SnaplineError, TransientError, UserCodeError
from snapline.testing import ThreadCluster

pytestmark = pytest.mark.slow

COMMITTED, ALREADY, LATER = CommitResult.COMMITTED, CommitResult.ALREADY_COMMITTED, CommitResult.RETRY_LATER

CRASHING_PRODUCER = """
import sys, time
from confluent_kafka import Producer
bootstrap, writer, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "snapline/" + writer, "log_level": 0})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce(topic, b'{"x":666}')
producer.flush(30)
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture
def lineage() -> str:
    return f"line-{uuid.uuid4().hex}"


@pytest.fixture
def sink(kafka: KafkaServer, topic: str) -> sl.Sink:
    kafka.create_topic(topic)
    sink = sl.sinks.Kafka(kafka.bootstrap, topic)
    sink.check_access()
    return sink


class TestCrashes:
    def test_a_crash_before_prepare_leaves_nothing(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        dead = Task(sink, lineage)
        dead.write(1, 2)
        after = Task(sink, lineage, attempt=2)
        assert after.commit(after.prepared(1, 1, 2)) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2]

    def test_a_process_that_dies_in_mid_commit(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        """Its transaction is open when the next attempt comes, and its rows are never seen."""
        prepared = Task(sink, lineage).prepared(1, 1, 2)
        command = [sys.executable, "-c", CRASHING_PRODUCER, kafka.bootstrap, f"{lineage}/out/0/1", topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as dying:
            assert dying.stdout is not None
            assert dying.stdout.readline() == b"open\n"
            dying.kill()
        assert numbers(kafka, topic, ended=False) == []
        after = Task(sink, lineage, attempt=2)
        assert after.commit(prepared) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2]
        after.close()

    def test_a_commit_that_was_not_recorded(self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str) -> None:
        dead = Task(sink, lineage)
        prepared = dead.prepared(1, 1, 2)
        assert dead.commit(prepared) == [COMMITTED]
        after = Task(sink, lineage, attempt=2)
        assert after.commit(prepared) == [ALREADY]
        assert after.commit(after.prepared(2, 3)) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2, 3]

    def test_restored_commits_may_be_divided_among_subtasks(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        """The later one first: it says nothing about the earlier one."""
        dead = Task(sink, lineage)
        first, second = dead.prepared(1, 1), dead.prepared(2, 2)
        after = [Task(sink, lineage, subtask=subtask, attempt=2) for subtask in range(2)]
        assert after[1].commit(second) == [COMMITTED]
        assert after[0].commit(first) == [COMMITTED]
        assert after[1].commit(first) == [ALREADY]
        assert after[0].commit(second) == [ALREADY]
        assert sorted(numbers(kafka, topic)) == [1, 2]

    def test_fewer_subtasks_commit_what_more_prepared(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        dead = [Task(sink, lineage, subtask=subtask) for subtask in range(2)]
        prepared = [task.prepared(1, 10 * number) for number, task in enumerate(dead, 1)]
        assert dead[1].commit(prepared[1]) == [COMMITTED]
        after = Task(sink, lineage, attempt=2, parallelism=1)
        assert after.commit([*prepared[0], *prepared[1]]) == [COMMITTED, ALREADY]
        assert after.commit(after.prepared(2, 30)) == [COMMITTED]
        assert sorted(numbers(kafka, topic)) == [10, 20, 30]


class TestZombies:
    def test_a_zombie_that_has_a_producer_is_fenced(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        zombie = Task(sink, lineage)
        zombie.commit(zombie.prepared(1, 1))
        second, third = zombie.prepared(2, 2), zombie.prepared(3, 3)
        live = Task(sink, lineage, attempt=2)
        assert live.commit(second) == [COMMITTED]
        with pytest.raises(FencedError, match="attempt 2 of the job has taken over"):
            zombie.commit(second)
        with pytest.raises(FencedError, match="attempt 2"):
            zombie.commit(third)
        assert live.commit(live.prepared(3, 3)) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2, 3]

    def test_a_zombie_whose_first_commit_comes_late(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        """It takes the id of its own attempt, which the live one is done with, and sees the marker."""
        zombie = Task(sink, lineage)
        prepared = zombie.prepared(1, 1)
        live = Task(sink, lineage, attempt=2)
        assert live.commit(prepared) == [COMMITTED]
        assert live.commit(live.prepared(2, 2)) == [COMMITTED]
        with pytest.raises(FencedError):
            zombie.commit(prepared)
        assert live.commit(live.prepared(3, 3)) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2, 3]

    def test_a_zombie_that_commits_first(self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str) -> None:
        zombie = Task(sink, lineage)
        prepared = zombie.prepared(1, 1)
        live = Task(sink, lineage, attempt=2)
        assert zombie.commit(prepared) == [COMMITTED]
        assert live.commit(prepared) == [ALREADY]
        assert live.commit(live.prepared(2, 2)) == [COMMITTED]
        assert numbers(kafka, topic) == [1, 2]

    def test_a_zombie_takes_the_id_while_the_live_one_commits(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The live one takes it back, and the zombie sees in the marker that it is late."""
        zombie, live = Task(sink, lineage), Task(sink, lineage, attempt=2)
        prepared = zombie.prepared(1, *range(100))
        errors: list[Exception] = []
        produce_all = message_rows.produce_all
        calls: list[str] = []

        def interrupted(*arguments: object) -> None:
            produce_all(*arguments)  # type: ignore[arg-type]
            calls.append("live")
            if len(calls) == 1:
                try:
                    zombie.commit(prepared)
                except FencedError as error:
                    errors.append(error)

        monkeypatch.setattr(kafka_transactions, "produce_all", interrupted)
        assert live.commit(prepared) == [COMMITTED]
        assert len(calls) == 2
        assert len(errors) == 1
        assert numbers(kafka, topic) == list(range(100))

    def test_all_at_once(self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str) -> None:
        """Three attempts commit the same at the same time: one of them does it, in one piece."""
        first = Task(sink, lineage)
        prepared = [*first.prepared(1, *range(50)), *first.prepared(2, *range(50, 100))]
        tasks = [first, Task(sink, lineage, attempt=2), Task(sink, lineage, attempt=3)]

        def commit(task: Task) -> None:
            try:
                task.commit_until_done(prepared)
            except FencedError:
                outcomes.append("fenced")
            else:
                outcomes.append("done")

        outcomes: list[str] = []
        threads = [threading.Thread(target=commit, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert len(outcomes) == 3
        assert "done" in outcomes
        assert numbers(kafka, topic) == list(range(100))

    def test_two_lineages_are_never_confused(self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str) -> None:
        """A job that starts from scratch begins at checkpoint 1 again, in attempt 1."""
        old, new = Task(sink, lineage, attempt=5), Task(sink, f"{lineage}-2", attempt=1)
        left = old.prepared(8, 1)
        old.commit(old.prepared(9, 2))
        assert new.commit(new.prepared(1, 3)) == [COMMITTED]
        assert sink.committed_until(lineage, "out") == 9
        assert sink.committed_until(f"{lineage}-2", "out") == 1
        assert sink.committed_until(lineage, "ou") is None
        # A savepoint of the old one, restored by the new one, whose attempts are counted anew.
        restored = Task(sink, f"{lineage}-3", attempt=1)
        assert restored.commit(left) == [ALREADY]
        more = old.prepared(10, 4)
        assert restored.commit(more) == [COMMITTED]
        assert old.commit(more) == [ALREADY]
        assert sorted(numbers(kafka, topic)) == [2, 3, 4]


class TestBrokers:
    def test_a_broker_that_dies_in_mid_commit_for_longer_than_the_transaction_timeout(
        self,
        tmp_path: Path,
        topic: str,
        lineage: str,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """Once with the rows under way, and once when nobody can know whether the commit has arrived."""
        for name in ("STALL_S", "COMMIT_TIMEOUT_S", "REQUEST_TIMEOUT_S"):
            monkeypatch.setattr(kafka_transactions, name, 1.0)
        rows = range(2000)
        with or_skip(KafkaServer(tmp_path)) as server:
            server.create_topic(topic)
            sink = sl.sinks.Kafka(server.bootstrap, topic, config={"transaction.timeout.ms": 2000})
            sink.check_access()
            task = Task(sink, lineage)
            assert task.commit_until_done(task.prepared(1, 0)) == [COMMITTED]
            for checkpoint, step in enumerate(("rows", "commit sent"), 2):
                prepared = task.prepared(checkpoint, *rows)
                with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
                    _kill_at(step, server, patch)
                    (result,) = task.commit(prepared)
                server.kill()
                down_s = time.monotonic()
                while result is LATER and time.monotonic() - down_s < 3:
                    (result,) = task.commit(prepared)
                server.start()
                if result is LATER:
                    assert task.commit_until_done(prepared)[0] in (COMMITTED, ALREADY)
                assert numbers(server, topic) == [0, *list(rows) * (checkpoint - 1)], step
            assert "is tried again later" in caplog.text
            after = Task(sink, lineage, attempt=2)
            assert after.commit_until_done(prepared) == [ALREADY]
            task.close()
            after.close()


def _kill_at(step: str, server: KafkaServer, patch: pytest.MonkeyPatch) -> None:
    transactions = kafka_transactions.WriterTransactions
    produce_all = message_rows.produce_all
    commit = transactions._commit

    def produce(*arguments: object) -> None:
        produce_all(*arguments)  # type: ignore[arg-type]
        if step == "rows":
            server.kill()

    def commit_now(self: kafka_transactions.WriterTransactions) -> None:
        if step == "commit sent":
            killer = threading.Timer(0.003, server.kill)
            killer.start()
            try:
                commit(self)
            finally:
                killer.join()
            return
        commit(self)

    patch.setattr(kafka_transactions, "produce_all", produce)
    patch.setattr(transactions, "_commit", commit_now)


class TestMessages:
    def test_keys_keep_their_order(self, kafka: KafkaServer, topic: str, lineage: str) -> None:
        kafka.create_topic(topic, 4)
        sink = sl.sinks.Kafka(kafka.bootstrap, topic, key="user", value_columns=["x"])
        sink.check_access()
        tasks = [Task(sink, lineage, subtask=subtask) for subtask in range(2)]
        for checkpoint in range(1, 4):
            for number, task in enumerate(tasks):
                rows = range(checkpoint * 1000, checkpoint * 1000 + 500)
                users = [f"user-{number}-{row % 7}" for row in rows]
                task.writer.write(pa.record_batch({"user": users, "x": pa.array(rows)}))
                assert task.commit(task.prepare(checkpoint)) == [COMMITTED]
        found: dict[bytes, list[tuple[int, int]]] = {}
        for message in read_committed(kafka, topic):
            value = json.loads(message.value() or b"")["x"]
            found.setdefault(message.key() or b"", []).append((message.partition() or 0, value))
        assert len(found) == 14
        for rows_of_key in found.values():
            assert rows_of_key == sorted(rows_of_key)
            assert len({partition for partition, _ in rows_of_key}) == 1
        assert sum(map(len, found.values())) == 3000

    @pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
    def test_all_parts_of_a_message(self, kafka: KafkaServer, topic: str, lineage: str, guarantee: str) -> None:
        kafka.create_topic(topic, 3)
        sink = sl.sinks.Kafka(
            kafka.bootstrap,
            topic,
            format=sl.formats.Raw(),
            key=["a", "b"],
            key_format=sl.formats.Json(),
            value_columns=["value"],
            partition="to",
            timestamp="at",
            headers="notes",
            guarantee=guarantee,  # type: ignore[arg-type]
        )
        rows = pa.record_batch(
            {
                "a": pa.array([1, 2]),
                "b": ["x", "y"],
                "value": pa.array([b"one", None], pa.binary()),
                "to": pa.array([2, 1], pa.int64()),
                "at": pa.array([5_000, 6_000], pa.timestamp("ms", "UTC")),
                "notes": pa.array(
                    [[{"name": "n", "value": b"1"}, {"name": "n", "value": None}], None],
                    pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())])),
                ),
            }
        )
        sink.check(rows.schema)
        sink.check_access()
        task = Task(sink, lineage)
        task.writer.write(rows)
        task.commit(task.prepare(1))
        found = sorted(read_committed(kafka, topic), key=lambda message: message.timestamp()[1])
        assert [
            (message.partition(), message.key(), message.value(), message.headers(), message.timestamp()[1])
            for message in found
        ] == [
            (2, b'{"a":1,"b":"x"}', b"one", [("n", b"1"), ("n", None)], 5_000),
            (1, b'{"a":2,"b":"y"}', None, None, 6_000),
        ]

    def test_a_job(self, kafka: KafkaServer, topic: str) -> None:
        kafka.create_topic(topic, 2)
        job = sl.Job("job", checkpoints=sl.Checkpoints(interval="200ms"))
        job.source(sl.sources.Sequence(0, 20_000), uid="numbers").sink(
            sl.sinks.Kafka(kafka.bootstrap, topic), uid="out"
        )
        job.run(ThreadCluster())
        found = [json.loads(message.value() or b"")["value"] for message in read_committed(kafka, topic)]
        assert sorted(found) == list(range(20_000))

    def test_at_least_once_flushes_before_a_checkpoint(self, kafka: KafkaServer, topic: str, lineage: str) -> None:
        kafka.create_topic(topic)
        sink = sl.sinks.Kafka(kafka.bootstrap, topic, guarantee="at_least_once")
        assert sink.two_phase is False
        assert sink.committed_until(lineage, "out") is None
        task = Task(sink, lineage)
        task.write(*range(5000))
        assert task.prepare(1) == []
        assert numbers(kafka, topic) == list(range(5000))
        task.close()


class TestErrors:
    def test_a_topic_that_is_not_there(self, kafka: KafkaServer, topic: str) -> None:
        kafka.create_topic(topic)
        sink = sl.sinks.Kafka(kafka.bootstrap, topic[:-1])
        with pytest.raises(ConfigurationError, match=f"no topic '{topic[:-1]}'.*did you mean '{topic}'"):
            sink.check_access()

    def test_a_topic_that_is_deleted_while_the_job_runs(
        self, kafka: KafkaServer, topic: str, sink: sl.Sink, lineage: str
    ) -> None:
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        brief = sl.sinks.Kafka(kafka.bootstrap, topic, config={"topic.metadata.propagation.max.ms": 500})
        task = Task(brief, lineage)
        with pytest.raises(ConfigurationError, match="create the topic"):
            task.commit_until_done(task.prepared(1, 1))

    def test_no_broker(self, topic: str, lineage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kafka_transactions, "REQUEST_TIMEOUT_S", 0.5)
        monkeypatch.setattr("snapline.connectors.kafka.kafka_cluster.REQUEST_TIMEOUT_S", 0.5)
        sink = sl.sinks.Kafka("127.0.0.1:1", topic)
        with pytest.raises(TransientError, match=r"is a broker running at 127\.0\.0\.1:1"):
            sink.check_access()
        task = Task(sink, lineage)
        assert task.commit(task.prepared(1, 1)) == [LATER]
        task.close()

    def test_a_message_too_large_for_the_topic(self, kafka: KafkaServer, topic: str, lineage: str) -> None:
        kafka.create_topic(topic, max__message__bytes=1000)
        sink = sl.sinks.Kafka(kafka.bootstrap, topic, config={"compression.type": "none"})
        task = Task(sink, lineage)
        with pytest.raises(ConfigurationError, match=r"larger messages.*max\.message\.bytes"):
            task.commit_until_done(task.prepared(1, *range(2000)))
        direct = Task(sl.sinks.Kafka(kafka.bootstrap, topic, guarantee="at_least_once"), lineage)
        with pytest.raises(SnaplineError, match=r"max\.message\.bytes"):
            direct.prepared(1, *range(20000))

    def test_a_commit_topic_that_would_lose_markers(self, kafka: KafkaServer, topic: str) -> None:
        kafka.create_topic(topic)
        for name, partitions, policy, problem in (
            (f"{topic}-a", 16, "delete", "cleanup.policy=delete"),
            (f"{topic}-b", 2, "compact", "has 2 partitions"),
        ):
            kafka.create_topic(name, partitions, cleanup__policy=policy)
            with pytest.raises(ConfigurationError, match=rf"{problem}.*create it by hand"):
                sl.sinks.Kafka(kafka.bootstrap, topic, commit_topic=name).check_access()

    def test_a_timeout_that_the_broker_does_not_allow(self, kafka: KafkaServer, topic: str) -> None:
        kafka.create_topic(topic)
        sink = sl.sinks.Kafka(kafka.bootstrap, topic, config={"transaction.timeout.ms": 10**8})
        with pytest.raises(ConfigurationError, match=r"transaction\.max\.timeout\.ms"):
            sink.check_access()

    def test_more_than_max_size_between_checkpoints(self, kafka: KafkaServer, topic: str, lineage: str) -> None:
        task = Task(sl.sinks.Kafka(kafka.bootstrap, topic, max_size="10kb"), lineage)
        with pytest.raises(UserCodeError, match=r"more than 10.*interval=.*max_size="):
            task.write(*range(2000))


def test_the_example_runs(kafka: KafkaServer) -> None:
    example = Path(__file__).parents[3] / "examples" / "kafka_sink.py"
    command = [sys.executable, str(example), kafka.bootstrap]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    expected = sl.sources.Rate(20_000, rows=30_000, users=3).expected_counts()
    assert finished.stdout.splitlines() == ["FINISHED", *(f"{user} {expected[user]}" for user in sorted(expected))]

"""Whole jobs that read Kafka: processes and brokers that die, groups, event time, partitions that appear."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewPartitions
from tests.integration.kafka.source_kit import NUMBERS, committed, eventually, producer, put
from tests.servers_kit import or_skip

import snapline as sl
from snapline.connectors.kafka.kafka_reader import KafkaReader
from snapline.contracts.source import ReaderContext, SourceReader
from snapline.devtools.kit.exactly_once import Slow
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.testing.clusters import ProcessCluster, ThreadCluster
from snapline.types import JobStatus

pytestmark = pytest.mark.slow


def job_of(directory: Path, **options: Any) -> sl.Job:
    return sl.Job(
        "kafka",
        parallelism=2,
        checkpoints=sl.Checkpoints(interval="50ms", storage=str(directory / "chk")),
        restart=sl.FixedDelay(attempts=5, delay="10ms"),
        **options,
    )


def numbers(sink: sl.sinks.Collect) -> list[int]:
    found: list[int] = sorted(sink.table().column("x").to_pylist())
    return found


def test_operator_processes_are_killed(kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
    rows, group = 30_000, f"group of {topic}"
    kafka.create_topic(topic, 3)
    for partition in range(3):
        put(kafka, topic, range(partition, rows, 3), partition)
    job = job_of(tmp_path)
    source = sl.sources.Kafka(kafka.bootstrap, topic, format=NUMBERS, bounded=True, batch_rows=200, group=group)
    stream = job.source(source, uid="kafka")
    stream.apply(Slow(0.15), uid="slow", schema=stream.schema).sink(sl.sinks.Files(tmp_path / "out"), uid="out")
    cluster = ProcessCluster()
    handle = job.start(cluster)
    for attempt in (1, 2):
        before = handle.checkpoints().counts.completed
        eventually(lambda before=before: handle.checkpoints().counts.completed > before + 1)  # type: ignore[misc]
        os.kill(cluster.worker_pids()[0], signal.SIGKILL)
        eventually(lambda attempt=attempt: handle.attempt > attempt)  # type: ignore[misc]
    assert handle.wait("60s") is JobStatus.FINISHED
    assert sorted(sl.sinks.read_files(tmp_path / "out").column("x").to_pylist()) == list(range(rows))
    assert committed(kafka, group, topic, 3) == [rows // 3] * 3


class WatchedReader(KafkaReader):
    """Writes down the positions of each checkpoint."""

    file = ""

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Any, Any]]:
        found = super().positions(checkpoint_id)
        with open(self.file, "a", encoding="utf-8") as file:
            file.writelines(json.dumps([checkpoint_id, split[1], at or 0]) + "\n" for split, at in found)
        return found


class WatchedKafka(sl.sources.Kafka):
    """For `test_group_offsets_are_never_ahead_of_the_last_checkpoint`."""

    file = ""

    def reader(self, context: ReaderContext) -> SourceReader:
        reader = WatchedReader(self._settings, context)
        reader.file = self.file
        return reader


def test_group_offsets_are_never_ahead_of_the_last_checkpoint(kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, 2)
    group, file = f"group of {topic}", tmp_path / "positions"
    file.touch()
    source = WatchedKafka(kafka.bootstrap, topic, format=NUMBERS, group=group, batch_rows=50)
    source.file = str(file)
    job = job_of(tmp_path)
    stream = job.source(source, uid="kafka")
    sink = sl.sinks.Collect(tmp_path / "out")
    stream.apply(Slow(0.2), uid="slow", schema=stream.schema).sink(sink, uid="out")
    for partition in range(2):
        put(kafka, topic, range(partition, 10_000, 2), partition)
    handle = job.start(ThreadCluster())
    samples = 0
    while (found := committed(kafka, group, topic, 2)) != [5000, 5000]:
        latest = handle.checkpoints().latest.completed
        positions = [json.loads(line) for line in file.read_text().splitlines()]
        for partition, offset in enumerate(found):
            if offset >= 0:
                assert latest is not None
                limits = [at for checkpoint, number, at in positions if checkpoint == latest.id and number == partition]
                assert offset <= max(limits)
                samples += 1
    assert samples > 3
    handle.cancel()
    handle.wait("30s")


@pytest.mark.parametrize("align", [None, "group"])
def test_a_partition_that_is_much_ahead_makes_no_row_late(
    kafka: KafkaServer, topic: str, tmp_path: Path, align: str | None
) -> None:
    kafka.create_topic(topic, 3)
    hour_ms, rows = 3_600_000, 3000
    for partition, ahead_ms in ((0, hour_ms), (1, 0), (2, 0)):
        put(kafka, topic, ({"key": "k", "t": ahead_ms + number * 1000} for number in range(rows)), partition)
    source = sl.sources.Kafka(
        kafka.bootstrap, topic, format=sl.formats.Json("key STRING, t BIGINT"), bounded=True, batch_rows=100
    )
    job = sl.Job("skewed", parallelism=1, checkpoints=sl.Checkpoints(interval="50ms", storage=str(tmp_path / "chk")))
    stream = job.source(source, uid="kafka", watermarks=sl.Watermarks("t", align=align, max_drift="10m"))
    counts = stream.key_by("key").window(sl.Tumbling("1m")).late_output("late").aggregate(uid="counts", n=sl.count())
    windows, late = sl.sinks.Collect(tmp_path / "windows"), sl.sinks.Collect(tmp_path / "late")
    counts.sink(windows, uid="windows")
    counts.side_output("late").sink(late, uid="late")
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    assert late.table().num_rows == 0
    assert sum(windows.table().column("n").to_pylist()) == 3 * rows
    assert windows.table().num_rows == rows * 1000 // 60_000 * 2


def test_partitions_and_topics_that_appear_are_read(kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(f"{topic}-a")
    put(kafka, f"{topic}-a", range(10))
    job, sink = job_of(tmp_path), sl.sinks.Collect(tmp_path / "out")
    source = sl.sources.Kafka(kafka.bootstrap, pattern=f"{topic}-.*", format=NUMBERS, discovery="100ms")
    job.source(source, uid="kafka").sink(sink, uid="out")
    handle = job.start(ThreadCluster())
    eventually(lambda: numbers(sink) == list(range(10)))
    kafka.create_topic(f"{topic}-b")
    put(kafka, f"{topic}-b", range(10, 20))
    admin = kafka.admin()
    admin.create_partitions([NewPartitions(f"{topic}-a", 2)])[f"{topic}-a"].result(30)
    eventually(lambda: len(admin.list_topics(f"{topic}-a").topics[f"{topic}-a"].partitions) == 2)
    put(kafka, f"{topic}-a", range(20, 30), 1)
    eventually(lambda: numbers(sink) == list(range(30)))
    handle.cancel()
    handle.wait("30s")


def test_the_example_runs(kafka: KafkaServer) -> None:
    example = Path(__file__).parents[3] / "examples" / "kafka_source.py"
    command = [sys.executable, str(example), kafka.bootstrap]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert finished.stdout.splitlines()[:2] == ["0 user-0 40", "0 user-1 40"]
    assert len(finished.stdout.splitlines()) == 15


def test_bad_messages_become_dead_letters(kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    put(kafka, topic, [1, b"nonsense", 2])
    job, sink, letters = job_of(tmp_path), sl.sinks.Collect(tmp_path / "out"), sl.sinks.Collect(tmp_path / "letters")
    source = sl.sources.Kafka(kafka.bootstrap, topic, format=NUMBERS, bounded=True, on_error="dead_letter")
    stream = job.source(source, uid="kafka")
    stream.sink(sink, uid="out")
    stream.dead_letters.sink(letters, uid="letters")
    assert job.run(ThreadCluster()) is JobStatus.FINISHED
    assert numbers(sink) == [1, 2]
    (letter,) = letters.table().to_pylist()
    assert (letter["file"], letter["line"], letter["row"]) == (f"{topic}-0", 1, "nonsense")


def test_the_broker_is_killed_and_comes_back(tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    with or_skip(KafkaServer(tmp_path / "kafka")) as server:
        server.create_topic(topic, 2)
        job, sink = job_of(tmp_path), sl.sinks.Collect(tmp_path / "out")
        source = sl.sources.Kafka(server.bootstrap, topic, format=NUMBERS, group="group", discovery="200ms")
        job.source(source, uid="kafka").sink(sink, uid="out")
        handle = job.start(ThreadCluster())
        client = producer(server, enable_idempotence=True)

        def write() -> None:
            for number in range(2000):
                put(server, topic, [number], number % 2, by=client)
                time.sleep(0.001)  # a steady stream
            client.flush(60)

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: len(numbers(sink)) > 100)
        server.kill()
        eventually(lambda: "no broker answers" in caplog.text)
        server.start()
        writer.join()
        eventually(lambda: len(numbers(sink)) >= 2000)
        assert numbers(sink) == list(range(2000))
        assert (handle.attempt, handle.status()) == (1, JobStatus.RUNNING)
        handle.cancel()
        handle.wait("30s")

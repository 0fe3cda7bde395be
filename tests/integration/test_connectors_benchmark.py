"""The benchmark of connectors runs on few rows: figures of each part, complete output, and what is missing is named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.connectors import sink_rates
from benchmarks.connectors.kafka_systems import EXACTLY, JSON, OURS, TO_KAFKA, Comparison, Way, summary
from benchmarks.connectors.messages import PARTITIONS, Sums, expected, fill, message, read_sums
from benchmarks.connectors.sink_rates import CASES, GUARANTEES, Places
from benchmarks.connectors.snapline_kafka import measure

from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.devtools.servers.postgres_server import PostgresServer
from snapline.testing.clusters import ProcessCluster, ThreadCluster

ROWS = 3000


def test_expected_rows_are_those_that_the_filter_keeps() -> None:
    assert expected(20).rows == 18
    assert 80 <= len(message(1_234_567)) <= 110


def ways(*figures: tuple[Way, float]) -> dict[Way, list[dict[str, Any]]]:
    return {way: [{"rows_per_second": rate}] for way, rate in figures}


def test_ratios_are_to_the_best_way_of_each_peer() -> None:
    ours, slow, fast = TO_KAFKA[0], TO_KAFKA[2], TO_KAFKA[3]
    streaming = TO_KAFKA[-1]
    made = summary(ways((ours, 300.0), (slow, 50.0), (fast, 100.0), (streaming, 150.0)))
    assert made["ratios"] == [
        {"guarantee": EXACTLY, "peer": "Flink SQL", "ratio": 3.0},
        {"guarantee": EXACTLY, "peer": "Structured Streaming, at least once", "ratio": 2.0},
    ]
    assert {way.system for way in JSON} == {way.system for way in TO_KAFKA} == {OURS, "Flink SQL", streaming.system}


def test_a_peer_that_is_not_there_is_named(tmp_path: Path) -> None:
    pythons = {"snapline": sys.executable, "flink": str(tmp_path / "python"), "spark": sys.executable}
    comparison = Comparison(KafkaServer(tmp_path), ROWS, pythons, lambda line: None, peers=("flink",))
    assert comparison.measure("json", 1) == {"ways": [], "ratios": []}
    assert len(comparison.absent) == 1
    assert "--peer-python flink=PATH" in comparison.absent[0]


@pytest.mark.slow
def test_kafka_to_kafka(kafka: KafkaServer, topic: str) -> None:
    for name in (topic, f"{topic}-out"):
        kafka.create_topic(name, PARTITIONS, message__timestamp__type="LogAppendTime")
    fill(kafka.bootstrap, topic, ROWS)
    figures = measure(ProcessCluster(), kafka.bootstrap, topic, f"{topic}-out", ROWS, "exactly_once")
    assert figures["rows_per_second"] > 0
    found, seconds = read_sums(kafka.bootstrap, f"{topic}-out")
    assert found == expected(ROWS)
    assert seconds >= 0


@pytest.mark.slow
def test_json_is_decoded_and_dropped(kafka: KafkaServer, topic: str) -> None:
    kafka.create_topic(topic, PARTITIONS)
    fill(kafka.bootstrap, topic, ROWS)
    assert read_sums(kafka.bootstrap, topic)[0] == Sums(
        ROWS, *(sum(column) for column in zip(*((n % 1000, 1_767_323_045_000 + n) for n in range(ROWS)), strict=True))
    )
    assert measure(ThreadCluster(), kafka.bootstrap, topic, None, ROWS, "exactly_once")["rows"] == ROWS


@pytest.mark.slow
def test_each_sink_with_both_guarantees(
    kafka: KafkaServer, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_rates, "Places", lambda directory, stack: Places(directory, stack, kafka, postgres))
    lines: list[str] = []
    found = sink_rates.measure(ThreadCluster, list(CASES), ROWS, 1, lines.append)
    assert list(found) == list(CASES)
    assert len(lines) == len(CASES)
    for item in found.values():
        assert item["ratio"] > 0
        assert all(item[guarantee]["rows_per_second"] > 0 for guarantee in GUARANTEES)

"""The Kafka source and sink of a query on a real broker, with the options that Spark's plans have."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.kafka.kafka_sink_kit import read_committed
from tests.integration.kafka.source_kit import put

import snapline as sl
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.errors import ConfigurationError
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.relation_streams import lowered_relation
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.trees import Attribute, Plan
from snapline.sql.write_stream import kafka_sink
from snapline.testing import ThreadCluster

TIME = pa.timestamp("us", "UTC")
COLUMNS = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIME),
    ("timestampType", pa.int32()),
]


def relation(kafka: KafkaServer, topic: str, **options: str) -> Plan:
    output = tuple(Attribute(number, name, kind) for number, (name, kind) in enumerate(COLUMNS))
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingoffsets": "earliest", **options}
    arguments = {"sourceName": "kafka", "extraOptions": given, "source": "KafkaSourceProvider"}
    return Plan("StreamingRelationV2", output, (), {}, arguments, True, "kafka")


def test_what_is_in_a_topic_is_written_to_another_exactly_once(kafka: KafkaServer, topic: str, tmp_path: Path) -> None:
    out = f"{topic}-out"
    kafka.create_topic(topic, partitions=3)
    kafka.create_topic(out)
    checkpoints = sl.Checkpoints(interval="1h", storage=tmp_path)
    job = sl.Job("query", parallelism=2, checkpoints=checkpoints, execution=sl.Execution(metrics_interval="50ms"))
    rows = lowered_relation(relation(kafka, topic), Context(job, Uids())).stream
    sink = kafka_sink({"kafka.bootstrap.servers": kafka.bootstrap, "topic": out}, ["key", "value"])
    rows.select("key", "value").sink(sink, uid="sink")
    for partition in range(3):
        put(kafka, topic, [b"%d-%d" % (partition, number) for number in range(50)], partition, key=b"k%d" % partition)
    handle = job.start(ThreadCluster())
    handle.process_available("120s")
    expected = sorted((b"k%d" % partition, b"%d-%d" % (partition, n)) for partition in range(3) for n in range(50))
    assert sorted((m.key(), m.value()) for m in read_committed(kafka, out)) == expected
    put(kafka, topic, [b"more"], 1, key=b"k")
    handle.process_available("120s")
    assert sorted((m.key(), m.value()) for m in read_committed(kafka, out)) == sorted([*expected, (b"k", b"more")])
    handle.cancel()
    # The ends of transactions are no messages, but have offsets.
    other = sl.Job("again", checkpoints=sl.Checkpoints(interval="1h", storage=tmp_path))
    written = lowered_relation(relation(kafka, out), Context(other, Uids())).stream
    written.select("value").sink(sl.sinks.Files(tmp_path / "files"), uid="sink")
    reading = other.start(ThreadCluster())
    reading.process_available("120s")
    assert sl.sinks.read_files(tmp_path / "files").num_rows == len(expected) + 1
    reading.cancel()


def test_what_has_no_counterpart_is_refused(kafka: KafkaServer, topic: str) -> None:
    with pytest.raises(ConfigurationError, match="startingOffsets"):
        lowered_relation(relation(kafka, topic, startingoffsets='{"t":{"0":3}}'), Context(sl.Job("query"), Uids()))
    for columns in (["key"], ["value", "topic"]):
        with pytest.raises(ConfigurationError, match="key, value and partition"):
            kafka_sink({"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic}, columns)

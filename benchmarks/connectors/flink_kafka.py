"""Kafka to Kafka, and JSON alone, in Flink SQL with its Kafka connector; run by an interpreter with apache-flink.

`python -m benchmarks.connectors.flink_kafka --bootstrap B --jar J --input T --output T --warm-up T --rows N` prints one
JSON object. A first job over the topic of the warm-up lets the JVM compile; the second one is timed. Without `--output`
the decoded rows are dropped.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.connectors.messages import DROPPED, FACTOR, INTERVAL_S, PARALLELISM
from benchmarks.peers.flink_parts import Cluster, environments, version

SOURCE = """
CREATE TEMPORARY TABLE `{name}` (`user` STRING, `value` BIGINT, `time` BIGINT, `text` STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json')
"""
SINK = """
CREATE TEMPORARY TABLE `{name}` (`user` STRING, `value` BIGINT, `time` BIGINT, `text` STRING) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'format' = 'json', 'sink.delivery-guarantee' = '{guarantee}'{more})
"""
DROP = """
CREATE TEMPORARY TABLE `{name}` (`user` STRING, `value` BIGINT, `time` BIGINT, `text` STRING) WITH (
  'connector' = 'blackhole')
"""
# The default of an hour is more than a broker allows.
TRANSACTIONS = {"sink.transactional-id-prefix": "benchmark", "properties.transaction.timeout.ms": "600000"}
TUNED = {
    "properties.compression.type": "lz4",
    "properties.linger.ms": "20",
    "properties.batch.size": "1000000",
    "properties.buffer.memory": "134217728",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jar", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output")
    parser.add_argument("--warm-up", required=True)
    parser.add_argument("--warm-up-output")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--guarantee", choices=("exactly-once", "at-least-once"), default="exactly-once")
    parser.add_argument("--tuned", action="store_true", help="larger batches with lz4 instead of the defaults")
    options = parser.parse_args()
    made = {}
    for number, (source, sink) in enumerate(
        ((options.warm_up, options.warm_up_output), (options.input, options.output))
    ):
        cluster = Cluster(
            PARALLELISM,
            **{"pipeline.jars": f"file://{options.jar}", "execution.checkpointing.interval": f"{INTERVAL_S}s"},
        )
        try:
            made = run(cluster, options, source, sink, number)
        finally:
            cluster.close()
    print(json.dumps(made))


def run(cluster: Cluster, options: argparse.Namespace, source: str, sink: str | None, number: int) -> dict[str, Any]:
    tables = environments(cluster)[1]
    tables.execute_sql(SOURCE.format(name="input", topic=source, bootstrap=options.bootstrap))
    more: dict[str, str] = {}
    if sink is None:
        tables.execute_sql(DROP.format(name="output"))
        query = "SELECT * FROM `input`"
    else:
        if options.guarantee == "exactly-once":
            more |= {**TRANSACTIONS, "sink.transactional-id-prefix": f"benchmark-{sink}-{number}"}
        if options.tuned:
            more |= TUNED
        written = "".join(f", '{key}' = '{value}'" for key, value in more.items())
        tables.execute_sql(
            SINK.format(
                name="output", topic=sink, bootstrap=options.bootstrap, guarantee=options.guarantee, more=written
            )
        )
        query = (
            f"SELECT `user`, `value` * {FACTOR}, `time`, `text` FROM `input` "  # noqa: S608
            f"WHERE MOD(`value`, {DROPPED}) <> 0"
        )
    timed = cluster.time(tables.execute_sql(f"INSERT INTO `output` {query}").get_job_client())
    return {
        "rows": options.rows,
        "seconds": timed["seconds"],
        "rows_per_second": options.rows / timed["seconds"],
        "version": version(),
        "timed": "from when all tasks run to the end of the job, JVM warm",
        "conditions": {
            "checkpoints": timed["checkpoints"],
            "net_seconds": timed["net_seconds"],
            **{name: value for name, value in cluster.conditions().items() if name != "pipeline.jars"},
            **(TUNED if options.tuned else {}),
        },
    }


if __name__ == "__main__":
    main()

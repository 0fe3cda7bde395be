"""Clicks from Kafka, counted per page and ten seconds of event time, into a Delta table: exactly once, end to end.

Run it with `python examples/kafka_to_delta.py [bootstrap [directory]]`. Without an address it starts a broker of its
own, from Maven Central. It needs `pip install 'snapline[kafka,delta,spark]'`.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import deltalake

import snapline as sl

PAGES = ("home", "search", "cart")
FIRST_MS = 1_735_689_600_000  # 2025-01-01


def fill(bootstrap: str, topic: str, clicks: int) -> None:
    """Write clicks to a topic: ten per second of event time, each page in turn."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(clicks):
        user = f"user-{number % 7}"
        click = {"page": PAGES[number % 3], "user": user, "at": FIRST_MS + number * 100}
        producer.produce(topic, json.dumps(click), key=user)
        producer.poll(0)
    producer.flush()


def make_job(bootstrap: str, topic: str, root: Path) -> sl.Job:
    job = sl.Job("pages", parallelism=2, checkpoints=sl.Checkpoints(interval="1s", storage=root / "checkpoints"))
    clicks = sl.sources.Kafka(
        bootstrap,
        topic,
        format=sl.formats.Json("page STRING, user STRING, at BIGINT"),
        group="pages",  # its offsets follow the checkpoints, for tools that watch the lag
        bounded=True,  # ends at what is there now; leave it out to go on for ever
    )
    (
        job.source(clicks, uid="clicks", watermarks=sl.Watermarks("at", delay="1s", idle_after="5s"))
        .key_by("page")
        .window(sl.Tumbling("10s"))
        .aggregate(clicks=sl.count(), users=sl.count_distinct("user"), uid="per-page")
        .sink(sl.sinks.Delta(root / "pages"), uid="table")
    )
    return job


def main(bootstrap: str, root: Path, where: Any) -> None:
    topic = "clicks"
    fill(bootstrap, topic, 3000)
    print(make_job(bootstrap, topic, root).run(where))
    table = deltalake.DeltaTable(root / "pages").to_pyarrow_table()
    for row in table.sort_by([("window_start", "ascending"), ("page", "ascending")]).slice(0, 3).to_pylist():
        print(row["page"], row["clicks"], row["users"])
    print(f"{table.num_rows} windows, {sum(table['clicks'].to_pylist())} clicks")


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    from snapline.devtools.servers.kafka_server import KafkaServer

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pages-")))
        if len(sys.argv) > 1:
            address = sys.argv[1]
        else:
            server = stack.enter_context(KafkaServer(folder / "kafka"))
            server.create_topic("clicks", partitions=4)
            address = server.bootstrap
        spark = SparkSession.builder.master("local[2]").getOrCreate()
        main(address, Path(sys.argv[2]) if len(sys.argv) > 2 else folder, spark)
        spark.stop()

"""Count the clicks of each minute that come in through Kafka.

Run it with `python examples/kafka_source.py localhost:9092`, the address of a broker. It creates a topic first and
writes some clicks to it. The job runs in threads of this process; on Spark, give `collect` the session.
"""

import json
import sys
import tempfile
import uuid

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import snapline as sl
from snapline.testing import ThreadCluster

bootstrap, topic = sys.argv[1], f"clicks-{uuid.uuid4().hex}"
data = tempfile.mkdtemp(prefix="kafka-")  # on a cluster: a place that all machines can reach


def write_clicks() -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=2)], operation_timeout=10)[topic].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(600):
        click = {"user": f"user-{number % 3}", "time": number * 500}
        producer.produce(topic, json.dumps(click).encode(), partition=number % 2)
    producer.flush()


clicks = sl.sources.Kafka(
    bootstrap,
    topic,
    format=sl.formats.Json("user STRING, time BIGINT"),
    bounded=True,  # up to what is there now; without it the job reads on for ever
    group="example",  # its offsets follow the checkpoints, so that other tools see how far the job is
)
job = sl.Job("clicks", parallelism=2, checkpoints=sl.Checkpoints(interval="1s", storage=f"{data}/checkpoints"))
counts = (
    job.source(clicks, uid="clicks", watermarks=sl.Watermarks("time"))
    .key_by("user")
    .window(sl.Tumbling("1min"))
    .aggregate(clicks=sl.count(), uid="per-minute")
)

if __name__ == "__main__":
    write_clicks()
    for row in sorted(counts.collect(ThreadCluster()).to_pylist(), key=lambda row: (row["window_start"], row["user"])):
        print(row["window_start"], row["user"], row["clicks"])

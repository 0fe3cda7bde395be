"""Write counts to Kafka exactly once, and read them back as everybody else sees them.

Run it with `python examples/kafka_sink.py localhost:9092`, the address of a broker. It creates a topic first. The job
runs in threads of this process; on Spark, give `run` the session.
"""

import sys
import tempfile
import uuid

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import snapline as sl
from snapline.testing import ThreadCluster

bootstrap, topic = sys.argv[1], f"counts-{uuid.uuid4().hex}"
data = tempfile.mkdtemp(prefix="kafka-")  # on a cluster: a place that all machines can reach

counts = sl.sinks.Kafka(
    bootstrap,
    topic,
    format=sl.formats.Json(),
    key="user",  # the counts of a user are in one partition, in order
)
job = sl.Job("counts", parallelism=2, checkpoints=sl.Checkpoints(interval="500ms", storage=f"{data}/checkpoints"))
(
    job.source(sl.sources.Rate(20_000, rows=30_000, users=3), uid="clicks")
    .key_by("user")
    .aggregate(n=sl.count(), uid="per-user")
    .sink(counts, uid="counts")
)

written = sl.sources.Kafka(bootstrap, topic, format=sl.formats.Json("user STRING, n BIGINT"), bounded=True)
reading = sl.Job("read")
last = reading.source(written, uid="written").key_by("user").aggregate(n=sl.max("n"), uid="last")

if __name__ == "__main__":
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=2)], operation_timeout=10)[topic].result()
    print(job.run(ThreadCluster()).value)
    newest = {row["user"]: row["n"] for row in last.collect(ThreadCluster()).to_pylist()}
    for user, clicks in sorted(newest.items()):
        print(user, clicks)

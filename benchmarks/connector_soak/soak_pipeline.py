"""The job of the soak, and its driver in a process of its own, so that it can be killed and started again."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import snapline as sl
from snapline.connectors.kafka.kafka_reader import KafkaReader
from snapline.contracts.source import Position, ReaderContext, SourceReader, Split

PARALLELISM = 2
PARTITIONS = 4
INTERVAL = "500ms"
GROUP = "soak"
_POLL_S = 0.1


class NotingKafka(sl.sources.Kafka):
    """A Kafka source that notes the positions of every checkpoint in a file, for the comparison with group offsets."""

    notes = ""

    def reader(self, context: ReaderContext) -> SourceReader:
        reader = _NotingReader(self._settings, context)
        reader.notes = self.notes
        return reader


class _NotingReader(KafkaReader):
    notes = ""

    def positions(self, checkpoint_id: int) -> Sequence[tuple[Split, Position]]:
        found = super().positions(checkpoint_id)
        lines = "".join(json.dumps([checkpoint_id, split[1], at]) + "\n" for split, at in found)
        with open(self.notes, "a") as file:
            file.write(lines)
        return found


def make_job(order: dict[str, Any]) -> sl.Job:
    root = Path(order["root"])
    job = sl.Job(
        "soak",
        parallelism=PARALLELISM,
        checkpoints=sl.Checkpoints(interval=INTERVAL, storage=root / "checkpoints"),
        execution=sl.Execution(heartbeat_timeout="5s", cancel_timeout="2s"),
        restart=sl.ExponentialDelay(initial_backoff="50ms", max_backoff="1s"),
    )
    source = NotingKafka(order["bootstrap"], "clicks", format=sl.formats.Json("user STRING, value BIGINT"), group=GROUP)
    source.notes = str(root / "positions")
    clicks = job.source(source, uid="clicks")
    counts = clicks.key_by("user").aggregate(n=sl.count(), total=sl.sum("value"), uid="counts")
    counts.sink(sl.sinks.Kafka(order["bootstrap"], "counts", key="user"), uid="kafka")
    counts.sink(sl.sinks.Postgres(order["dsn"], "counts"), uid="postgres")
    counts.sink(sl.sinks.Delta(order["delta"]), uid="delta")
    return job


def main(root: Path) -> int:
    from snapline.spark.embedded_spark import EmbeddedSpark

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    order = json.loads((root / "order.json").read_text())
    spark = EmbeddedSpark(PARALLELISM, root / "spark", root / "spark.log")
    try:
        handle = make_job(order).start(spark.start())
        while not handle.status().is_globally_terminal:
            status = {"attempt": handle.attempt, "completed": handle.checkpoints().counts.completed, "pid": os.getpid()}
            (root / "status.new").write_text(json.dumps(status))
            (root / "status.new").rename(root / "status")
            if (root / "stop").exists():
                handle.stop(savepoint=str(root / "savepoints"))
                return 0
            time.sleep(_POLL_S)
        handle.wait()
        return 1
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

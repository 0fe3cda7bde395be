"""Kafka to Kafka and JSON from Kafka, in each system on the same broker, one after another."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.connectors.messages import PARTITIONS, Sums, expected, fill, read_sums
from benchmarks.peers.running import PeerError, missing, run

from snapline.devtools.servers.kafka_server import KAFKA_ARTIFACTS, KafkaServer
from snapline.devtools.servers.maven_jars import maven_jars
from snapline.errors import ConfigurationError

OURS = "Snapline"
WARM_UP_ROWS = 400_000
FLINK_ARTIFACTS = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)
SPARK_ARTIFACTS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    # What the connector asks for is not in Maven Central.
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)
SPARK_OWN = ("scala-library-", "hadoop-client-", "slf4j-api-", "lz4-java-", "snappy-java-", "jsr305-", "spark-tags_")
"""Jars that Spark has itself, perhaps of another version."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a system. Of those with the same system and guarantee the best one counts."""

    system: str
    guarantee: str
    name: str
    peer: str
    module: str
    modules: tuple[str, ...]
    arguments: tuple[str, ...] = ()


_SNAPLINE = ("snapline", "benchmarks.connectors.snapline_kafka", ("snapline", "pyspark", "confluent_kafka"))
_FLINK = ("flink", "benchmarks.connectors.flink_kafka", ("pyflink",))
_SPARK = ("spark", "benchmarks.connectors.spark_kafka", ("pyspark",))
EXACTLY, AT_LEAST, NO_SINK = "exactly once", "at least once", "no sink"

TO_KAFKA: tuple[Way, ...] = (
    Way(OURS, EXACTLY, "default", *_SNAPLINE, ("--guarantee", "exactly_once")),
    Way(OURS, AT_LEAST, "default", *_SNAPLINE, ("--guarantee", "at_least_once")),
    Way("Flink SQL", EXACTLY, "default", *_FLINK, ("--guarantee", "exactly-once")),
    Way("Flink SQL", EXACTLY, "lz4, large batches", *_FLINK, ("--guarantee", "exactly-once", "--tuned")),
    Way("Flink SQL", AT_LEAST, "default", *_FLINK, ("--guarantee", "at-least-once")),
    Way("Flink SQL", AT_LEAST, "lz4, large batches", *_FLINK, ("--guarantee", "at-least-once", "--tuned")),
    Way("Structured Streaming", AT_LEAST, "batches of 1 s", *_SPARK),
    Way("Structured Streaming", AT_LEAST, "batches of 1 s, lz4, large batches", *_SPARK, ("--tuned",)),
    Way("Structured Streaming", AT_LEAST, "one batch, lz4, large batches", *_SPARK, ("--whole", "--tuned")),
)
"""Structured Streaming knows no exactly once to Kafka."""
JSON: tuple[Way, ...] = (
    Way(OURS, NO_SINK, "default", *_SNAPLINE),
    Way("Flink SQL", NO_SINK, "default", *_FLINK),
    Way("Structured Streaming", NO_SINK, "batches of 1 s", *_SPARK),
    Way("Structured Streaming", NO_SINK, "one batch", *_SPARK, ("--whole",)),
)
WORKLOADS = {"kafka": TO_KAFKA, "json": JSON}

Tell = Callable[[str], None]


class Comparison:
    """A broker with its topics. `there` are the ways that can run; `absent` says why the others cannot."""

    def __init__(
        self,
        kafka: KafkaServer,
        rows: int,
        pythons: Mapping[str, str],
        tell: Tell,
        warm_up_rows: int = WARM_UP_ROWS,
        peers: Sequence[str] = ("snapline", "flink", "spark"),
    ) -> None:
        self._kafka = kafka
        self._rows = rows
        self._pythons = pythons
        self._tell = tell
        self._warm_up_rows = min(warm_up_rows, rows)
        self._peers = peers
        self._numbers = itertools.count()
        self._jars: dict[str, list[Path]] = {}
        self.absent: list[str] = []
        self.errors: list[str] = []
        self.size_bytes = 0
        self._expected: Sums | None = None

    def fill(self) -> None:
        """Fill the topic that all systems read, and one for the warm-up of JVMs."""
        for topic, rows in (("input", self._rows), ("warm-up", self._warm_up_rows)):
            self._kafka.create_topic(topic, PARTITIONS)
            size_bytes = fill(self._kafka.bootstrap, topic, rows)
            if topic == "input":
                self.size_bytes = size_bytes

    def versions(self) -> dict[str, Any]:
        jars = {peer: [path.name for path in paths] for peer, paths in self._jars.items()}
        return {"broker": KAFKA_ARTIFACTS[0], "connector jars": jars}

    def measure(self, workload: str, rounds: int) -> dict[str, Any]:
        """Returns the figures of all systems, and how many times as fast as each peer we are."""
        ways = [way for way in WORKLOADS[workload] if self._can_run(way)]
        runs: dict[Way, list[dict[str, Any]]] = {}
        for _ in range(rounds):
            for way in ways:
                try:
                    figures = self._run(way, has_sink=workload == "kafka")
                except PeerError as error:
                    self._fail(f"{way.system}, {way.guarantee}, {way.name}: {error}")
                    continue
                runs.setdefault(way, []).append(figures)
                self._tell(
                    f"  {way.system:<21}{way.guarantee:<14}{way.name:<36}{figures['rows_per_second']:12,.0f} rows/s"
                    f"  {figures['seconds']:6.1f} s  {figures['version']}"
                )
        return summary(runs)

    def _run(self, way: Way, *, has_sink: bool) -> dict[str, Any]:
        arguments = ["--bootstrap", self._kafka.bootstrap, "--input", "input", "--rows", str(self._rows)]
        arguments += ["--warm-up", "warm-up"]
        if way.peer in self._jars:
            given = ",".join(str(path) for path in self._jars[way.peer])
            arguments += ["--jar" if way.peer == "flink" else "--jars", given]
        number = next(self._numbers)
        outputs = {"--output": f"output-{number}", "--warm-up-output": f"warm-output-{number}"} if has_sink else {}
        for option, topic in outputs.items():
            self._kafka.create_topic(topic, PARTITIONS, message__timestamp__type="LogAppendTime")
            arguments += [option, topic]
        try:
            figures = run(self._pythons[way.peer], way.module, [*arguments, *way.arguments])
            if has_sink:
                figures |= self._checked(outputs["--output"])
        finally:
            self._delete(list(outputs.values()))
        return figures

    def _delete(self, topics: list[str]) -> None:
        admin = self._kafka.admin()
        for answer in admin.delete_topics(topics).values() if topics else ():
            answer.result()

    def _checked(self, topic: str) -> dict[str, Any]:
        found, seconds = read_sums(self._kafka.bootstrap, topic)
        if self._expected is None:
            self._expected = expected(self._rows)
        wanted = self._expected
        if found != wanted:
            raise PeerError(f"wrong rows in the output topic: {found}, not {wanted}")
        return {"rows written": found.rows, "seconds from first to last row in the output topic": seconds}

    def _can_run(self, way: Way) -> bool:
        if way.peer not in self._peers:
            return False
        reason = missing(way.peer, way.modules, self._pythons[way.peer])
        if reason is None and way.peer not in self._jars and way.peer != "snapline":
            try:
                self._jars[way.peer] = connector_jars(way.peer)
            except ConfigurationError as error:
                reason = f"{way.peer}: {error}"
        if reason is not None and reason not in self.absent:
            self.absent.append(reason)
            self._tell(f"  {reason}")
        return reason is None

    def _fail(self, message: str) -> None:
        self.errors.append(message)
        self._tell(f"  FAILED: {message}")


def connector_jars(peer: str) -> list[Path]:
    """The jars of a peer's Kafka connector, without what the peer has itself."""
    if peer == "flink":
        return maven_jars(*FLINK_ARTIFACTS)
    return [path for path in maven_jars(*SPARK_ARTIFACTS) if not path.name.startswith(SPARK_OWN)]


def summary(runs: Mapping[Way, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """The median of each way, the best way of each system, and our ratio to the best of each peer."""
    ways = []
    best: dict[tuple[str, str], float] = {}
    for way, figures in runs.items():
        rates = [item["rows_per_second"] for item in figures]
        middle = statistics.median_low(rates)
        item = figures[rates.index(middle)]
        ways.append({"system": way.system, "guarantee": way.guarantee, "way": way.name, **item, "rates": rates})
        place = way.system, way.guarantee
        best[place] = max(best.get(place, 0.0), middle)
    ratios = [
        {"guarantee": guarantee, "peer": system, "ratio": best[OURS, guarantee] / rate}
        for (system, guarantee), rate in best.items()
        if system != OURS and (OURS, guarantee) in best
    ]
    # A peer that has no exactly once is also compared with ours.
    ratios += [
        {"guarantee": EXACTLY, "peer": f"{system}, {AT_LEAST}", "ratio": best[OURS, EXACTLY] / rate}
        for (system, guarantee), rate in best.items()
        if guarantee == AT_LEAST and system != OURS and (system, EXACTLY) not in best and (OURS, EXACTLY) in best
    ]
    return {"ways": ways, "ratios": ratios}


def say_nothing(line: str) -> None:
    """For tests."""
    del line


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

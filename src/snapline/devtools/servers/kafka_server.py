"""Apache Kafka for tests: one process that is broker and controller. It can be killed, frozen and restarted."""

from __future__ import annotations

import base64
import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from snapline.devtools.servers.maven_jars import maven_jars
from snapline.devtools.servers.server_process import LOOPBACK, POLL_S, ServerProcess, free_port, is_open, java
from snapline.errors import ConfigurationError, EngineError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

KAFKA_ARTIFACTS = ("org.apache.kafka:kafka_2.13:4.1.2", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3")
"""The server, and what makes its errors appear in the log."""
ANSWER_TIMEOUT_S = 5.0
TOPIC_TIMEOUT_S = 30.0
FORMAT_TIMEOUT_S = 60.0

_PROPERTIES: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A wrong name has to fail.
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # The default, ten seconds, would let short transaction timeouts pass late.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    # After a kill the controller waits for the end of the last session, nine seconds by default.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    "log.cleaner.threads": 1,
    # Files of 10 MB for the indexes of each partition would fill small disks.
    "log.index.size.max.bytes": 1024 * 1024,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "num.recovery.threads.per.data.dir": 1,
}
_JVM = ("-Xmx512m", "-Xms128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j2.level=WARN")


def kafka_jars() -> list[Path]:
    """The jars of the server. Fetched on the first call; raises ConfigurationError where that is not possible."""
    return maven_jars(*KAFKA_ARTIFACTS)


class KafkaServer(ServerProcess):
    """A broker on 127.0.0.1 with its data in `directory`. A context manager: leaving it kills the process.

    `properties` are settings of the broker and win over ours; write `__` for each dot of a name:
    `KafkaServer(directory, transaction__max__timeout__ms=5000)`, or pass `**{"transaction.max.timeout.ms": 5000}`.
    """

    name = "Kafka"

    def __init__(self, directory: Path, **properties: object) -> None:
        super().__init__(directory)
        self._properties = {name.replace("__", "."): value for name, value in properties.items()}
        self._port = 0
        self._controller_port = 0

    @property
    def bootstrap(self) -> str:
        """The address for clients, "127.0.0.1:port"; the same after a restart."""
        return f"{LOOPBACK}:{self._port}"

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> None:
        """Create a topic and wait until each partition has a leader. `config` is written as `properties` are.

        Raises EngineError if the broker refuses, for example because the topic exists.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.cimpl import NewTopic

        settings = {key.replace("__", "."): _text(value) for key, value in config.items()}
        admin = self.admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        deadline_s = time.monotonic() + TOPIC_TIMEOUT_S
        try:
            admin.create_topics([topic], operation_timeout=TOPIC_TIMEOUT_S)[name].result(TOPIC_TIMEOUT_S)
            while not _is_led(admin, name, partitions):
                if time.monotonic() > deadline_s:
                    raise EngineError(f"topic {name!r} has no leaders after {TOPIC_TIMEOUT_S:g} s")
                time.sleep(POLL_S)
        except KafkaException as error:
            raise EngineError(f"create_topic({name!r}, {partitions}) on {self.bootstrap}: {error}") from error

    def admin(self) -> AdminClient:
        """A new client for administration. Raises ConfigurationError if confluent-kafka is not installed."""
        try:
            from confluent_kafka.admin import AdminClient
        except ImportError as error:
            raise ConfigurationError(
                f"Kafka needs the package confluent-kafka: pip install 'snapline[kafka]' ({error})"
            ) from error
        # Without log_level it writes each refused connection of a server that starts to the console.
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def _take_ports(self) -> None:
        self._port, self._controller_port = free_port(), free_port()

    def _command(self) -> list[str]:
        self.admin()  # says now, and not after the start, that the client is not installed
        properties = self._directory / "server.properties"
        data = self._directory / "data"
        properties.write_text(
            "".join(f"{name}={_text(value)}\n" for name, value in self._all_properties(data).items()), encoding="utf-8"
        )
        classes = ":".join(map(str, kafka_jars()))
        if not (data / "meta.properties").exists():
            self._format([java(), *_JVM, "-cp", classes, "kafka.tools.StorageTool", "format"], properties)
        return [java(), *_JVM, "-cp", classes, "kafka.Kafka", str(properties)]

    def _all_properties(self, data: Path) -> dict[str, object]:
        controller = f"{LOOPBACK}:{self._controller_port}"
        return {
            **_PROPERTIES,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": data,
            **self._properties,
        }

    def _format(self, command: list[str], properties: Path) -> None:
        # Kafka takes a UUID in base64; one that begins with a hyphen would look like an option.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        made = subprocess.run(  # noqa: S603  # our own
            [*command, "-t", cluster, "-c", str(properties)],
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if made.returncode:
            raise ConfigurationError(f"Kafka refuses {properties}:\n{made.stdout}{made.stderr}")

    def _answers(self) -> bool:
        if not is_open(self._port):
            return False
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin().list_topics(timeout=ANSWER_TIMEOUT_S).brokers)
        except KafkaException:
            return False


def _is_led(admin: AdminClient, name: str, partitions: int) -> bool:
    topic = admin.list_topics(timeout=TOPIC_TIMEOUT_S).topics.get(name)
    found = [] if topic is None or topic.error is not None else list(topic.partitions.values())
    return len(found) == partitions and all(partition.leader >= 0 for partition in found)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

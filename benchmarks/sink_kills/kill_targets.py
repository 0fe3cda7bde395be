"""The exactly-once sinks, where each writes to, and how a reader sees its rows."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.sink_kills.deadly_sink import POINTS, ZOMBIE

import snapline as sl
from snapline.contracts.sink import Sink
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.devtools.servers.postgres_server import PostgresServer

BROKER_OUTAGE = "broker down for longer than the transaction timeout"
BROKER_KILLED = "broker killed and restarted again and again"
SERVER_KILLED = "server killed and restarted again and again"
TRANSACTION_TIMEOUT_S = 5.0
"""Of the Kafka sink in these rounds."""


class AwayError(Exception):
    """The server does not answer just now."""


class Target(ABC):
    """One sink: where it writes to, how to read that, and what may happen to its server."""

    points: ClassVar[tuple[str, ...]] = POINTS
    disturbances: ClassVar[tuple[str, ...]] = ()

    @property
    def has_zombie(self) -> bool:
        return ZOMBIE in self.points

    @contextlib.contextmanager
    def serving(self, root: Path) -> Iterator[None]:
        """Start what the sink needs, with its data in `root`, and stop it at the end."""
        yield

    def place(self, label: str, root: Path) -> Any:
        """A new, empty place for a round: plain data. `label` is not used twice."""
        return str(root / f"out-{label}")

    @abstractmethod
    def make_sink(self, place: Any) -> Sink: ...

    @abstractmethod
    def read(self, place: Any) -> list[int]:
        """All rows that a reader sees now. Raises `AwayError` if the server is not there."""

    def read_all(self, place: Any) -> list[int]:
        """The same, by a reader that starts at the beginning."""
        return self.read(place)

    def disturb(self, what: str, place: Any, stop: threading.Event, log: list[str]) -> None:  # noqa: B027
        """Do something to the server while a round runs."""


class FilesTarget(Target):
    def make_sink(self, place: Any) -> Sink:
        return sl.sinks.Files(place)

    def read(self, place: Any) -> list[int]:
        path = Path(place)
        table = sl.sinks.read_files(path) if path.exists() else None
        found: list[int] = [] if table is None or not table.num_columns else table["id"].to_pylist()
        return found


class DatabaseTarget(Target):
    """SQLite by its DB-API driver, as any other database."""

    def place(self, label: str, root: Path) -> str:
        path = str(root / f"{label}.db")
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("create table numbers (id integer, text text)")
        return path

    def make_sink(self, place: Any) -> Sink:
        return sl.sinks.Database(partial(sqlite3.connect, place, timeout=30), "numbers")

    def read(self, place: Any) -> list[int]:
        with contextlib.closing(sqlite3.connect(place, timeout=30)) as database:
            return [number for (number,) in database.execute("select id from numbers")]


class DeltaTarget(Target):
    def __init__(self, mode: str) -> None:
        self._mode = mode

    def make_sink(self, place: Any) -> Sink:
        return sl.sinks.Delta(place, mode=self._mode, key="id" if self._mode == "upsert" else ())

    def read(self, place: Any) -> list[int]:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(place):
            return []
        found: list[int] = DeltaTable(place).to_pyarrow_table(columns=["id"])["id"].to_pylist()
        return found


class DataSourceTarget(Target):
    """A data source of PySpark that stages lines in files and shows them in its commit."""

    def make_sink(self, place: Any) -> Sink:
        from benchmarks.sink_kills.staged_lines import StagedLines  # here, since PySpark takes long to load

        return sl.sinks.DataSource(StagedLines, options={"path": place})

    def read(self, place: Any) -> list[int]:
        done = Path(place) / "done"
        paths = list(done.iterdir()) if done.exists() else []
        return [int(line) for path in paths for line in path.read_text().split()]


class PostgresTarget(Target):
    disturbances = (SERVER_KILLED,)

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.server: PostgresServer | None = None

    @contextlib.contextmanager
    def serving(self, root: Path) -> Iterator[None]:
        with PostgresServer(root / "postgres") as self.server:
            yield

    def place(self, label: str, root: Path) -> str:
        import psycopg

        assert self.server is not None
        # PostgreSQL cuts names after 63 characters; the round is at the end.
        dsn = self.server.create_database("round_" + "".join(c if c.isalnum() else "_" for c in label)[-55:])
        with psycopg.connect(dsn) as connection:
            connection.execute("create table numbers (id bigint primary key, text text)")
        return dsn

    def make_sink(self, place: Any) -> Sink:
        return sl.sinks.Postgres(place, "numbers", mode=self._mode, key=["id"] if self._mode == "upsert" else [])

    def read(self, place: Any) -> list[int]:
        import psycopg

        try:
            with psycopg.connect(place, connect_timeout=5) as connection:
                return [number for (number,) in connection.execute("select id from numbers")]
        except psycopg.OperationalError as error:
            raise AwayError(str(error)) from error

    def disturb(self, what: str, place: Any, stop: threading.Event, log: list[str]) -> None:
        assert self.server is not None
        while not stop.wait(2.0):
            self.server.kill()
            self.server.start()
            log.append("server killed")


class KafkaTarget(Target):
    disturbances = (BROKER_OUTAGE, BROKER_KILLED)

    def __init__(self) -> None:
        self.server: KafkaServer | None = None
        self._readers: dict[str, tuple[Any, list[int]]] = {}

    @contextlib.contextmanager
    def serving(self, root: Path) -> Iterator[None]:
        with KafkaServer(root / "kafka") as self.server:
            yield
            for consumer, _ in self._readers.values():
                consumer.close()
            self._readers.clear()

    def place(self, label: str, root: Path) -> dict[str, str]:
        assert self.server is not None
        topic = "round-" + "".join(c if c.isalnum() else "-" for c in label)
        self.server.create_topic(topic, partitions=2)
        return {"bootstrap": self.server.bootstrap, "topic": topic}

    def make_sink(self, place: Any) -> Sink:
        timeout = {"transaction.timeout.ms": round(TRANSACTION_TIMEOUT_S * 1000)}
        return sl.sinks.Kafka(place["bootstrap"], place["topic"], config=timeout)

    def read(self, place: Any) -> list[int]:
        topic = place["topic"]
        if topic not in self._readers:
            self._readers[topic] = (_consumer(place), [])
        consumer, numbers = self._readers[topic]
        numbers += _numbers(consumer.consume(10_000, timeout=0.05))
        return list(numbers)

    def read_all(self, place: Any) -> list[int]:
        consumer, numbers, quiet = _consumer(place), list[int](), 0
        ends = [consumer.get_watermark_offsets(partition, timeout=20)[1] for partition in consumer.assignment()]
        deadline_s = time.monotonic() + 30
        while quiet < 10 and time.monotonic() < deadline_s:
            found = _numbers(consumer.consume(10_000, timeout=0.2))
            numbers += found
            at = [position.offset for position in consumer.position(consumer.assignment())]
            quiet = quiet + 1 if not found and all(a >= e for a, e in zip(at, ends, strict=True)) else 0
        consumer.close()
        return numbers

    def disturb(self, what: str, place: Any, stop: threading.Event, log: list[str]) -> None:
        assert self.server is not None
        if what == BROKER_OUTAGE:
            stop.wait(3.0)
            self.server.kill()
            stop.wait(TRANSACTION_TIMEOUT_S + 3.0)
            self.server.start()
            log.append("broker down")
            return
        for _ in range(3):
            if stop.wait(2.5):
                return
            self.server.kill()
            self.server.start()
            log.append("broker killed")


def _consumer(place: Any) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": place["bootstrap"],
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(place["topic"], partition, 0) for partition in range(2)])
    return consumer


def _numbers(messages: list[Any]) -> list[int]:
    import json

    return [json.loads(message.value())["id"] for message in messages if message.error() is None]


TARGETS: dict[str, Target] = {
    "files": FilesTarget(),
    "kafka": KafkaTarget(),
    "postgres prepared": PostgresTarget("prepared"),
    "postgres commit_table": PostgresTarget("commit_table"),
    "postgres upsert": PostgresTarget("upsert"),
    "database": DatabaseTarget(),
    "delta append": DeltaTarget("append"),
    "delta upsert": DeltaTarget("upsert"),
    "data source": DataSourceTarget(),
}

"""Rows per second of each sink at least once and exactly once, in turns on the same rows."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.connectors.messages import (
    FIRST_MS,
    INTERVAL_S,
    PARALLELISM,
    PARTITIONS,
    USERS,
    committed_messages,
    text,
)
from benchmarks.connectors.plain_sinks import PlainDelta, PlainFiles, PlainUpsert
from benchmarks.connectors.snapline_kafka import mark, timed
from benchmarks.parts import temporary

import snapline as sl
from snapline.contracts.sink import Sink
from snapline.devtools.servers.kafka_server import KafkaServer
from snapline.devtools.servers.postgres_server import PostgresServer

SCHEMA = pa.schema(
    [("id", pa.int64()), ("name", pa.string()), ("value", pa.int64()), ("made", pa.int64()), ("note", pa.string())]
)
COLUMNS = "id BIGINT{key}, name TEXT, value BIGINT, made BIGINT, note TEXT"
KEYS = 50_000
"""Of the upserts."""
GUARANTEES = ("at_least_once", "exactly_once")
_BATCH_ROWS = 16_384

_NAMES = pa.array([f"user-{number}" for number in range(USERS)])
_NOTES = pa.array([text(number) for number in range(4)])


def rows_from(keys: int | None, first: Path, start: int, count: int) -> pa.RecordBatch:
    """Rows `start` and following, with as many different ids as there are `keys`."""
    mark(first)
    numbers = np.arange(start, start + count, dtype=np.int64)
    columns = [
        pa.array(numbers if keys is None else numbers % keys),
        _NAMES.take(pa.array(numbers % USERS)),
        pa.array(numbers % 1000),
        pa.array(FIRST_MS + numbers),
        _NOTES.take(pa.array(numbers % len(_NOTES))),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class Places:
    """The servers of a run, each from its first use on, and a new place for each job."""

    def __init__(
        self,
        directory: Path,
        stack: contextlib.ExitStack,
        kafka: KafkaServer | None = None,
        postgres: PostgresServer | None = None,
    ) -> None:
        self._directory = directory
        self._stack = stack
        self._kafka = kafka
        self._postgres = postgres
        self._numbers = itertools.count()

    def folder(self) -> str:
        return str(self._directory / f"out-{next(self._numbers)}")

    def topic(self) -> tuple[str, str]:
        if self._kafka is None:
            self._kafka = self._stack.enter_context(KafkaServer(self._directory / "kafka"))
        name = f"sink-{next(self._numbers)}"
        self._kafka.create_topic(name, PARTITIONS)
        return self._kafka.bootstrap, name

    def table(self, key: str | None = None) -> tuple[str, str]:
        import psycopg

        if self._postgres is None:
            # Our server for tests leaves it out; here it is part of what a commit costs.
            server = PostgresServer(self._directory / "postgres", fsync="on")
            self._postgres = self._stack.enter_context(server)
        name = f"sink_{next(self._numbers)}"
        with psycopg.connect(self._postgres.dsn, autocommit=True) as connection:
            columns = COLUMNS.format(key=" PRIMARY KEY" if key else "")
            connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        return self._postgres.dsn, name


@dataclass(frozen=True, slots=True)
class Place:
    """Where one job writes to: its sink, how many rows are there in the end, and how to remove them."""

    sink: Sink
    count: Callable[[], int]
    remove: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A sink. `share` of the rows is enough for some seconds; `keys` are those of an upsert.

    `baseline` says what at least once is, where the sink itself has no such mode.
    """

    name: str
    share: float
    make: Callable[[Places, str], Place]
    baseline: str = ""
    keys: int | None = None


def _kafka(places: Places, guarantee: Any) -> Place:
    bootstrap, topic = places.topic()
    sink = sl.sinks.Kafka(bootstrap, topic, guarantee=guarantee)
    return Place(sink, partial(_topic_rows, bootstrap, topic), partial(_delete_topic, bootstrap, topic))


def _postgres(mode: str, places: Places, guarantee: str) -> Place:
    dsn, table = places.table()
    sink = sl.sinks.Postgres(dsn, table, mode=mode, guarantee=guarantee)
    return Place(sink, partial(_table_rows, dsn, table), partial(_drop_table, dsn, table))


def _upsert(places: Places, guarantee: str) -> Place:
    dsn, table = places.table("id")
    is_exact = guarantee == "exactly_once"
    sink = sl.sinks.Postgres(dsn, table, mode="upsert", key=["id"]) if is_exact else PlainUpsert(dsn, table, "id")
    return Place(sink, partial(_table_rows, dsn, table), partial(_drop_table, dsn, table))


def _delta(places: Places, guarantee: str) -> Place:
    folder = places.folder()
    sink = sl.sinks.Delta(folder) if guarantee == "exactly_once" else PlainDelta(folder)
    return Place(sink, partial(_delta_rows, folder), partial(shutil.rmtree, folder))


def _files(places: Places, guarantee: str) -> Place:
    folder = places.folder()
    sink = sl.sinks.Files(folder) if guarantee == "exactly_once" else PlainFiles(folder)
    return Place(sink, partial(_file_rows, folder), partial(shutil.rmtree, folder))


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("kafka", 1.5, _kafka),
        Case("postgres prepared", 2.0, partial(_postgres, "prepared")),
        Case("postgres commit_table", 6.0, partial(_postgres, "commit_table")),
        Case("postgres upsert", 6.0, _upsert, "the same statements in each subtask ahead of the checkpoint", KEYS),
        Case("delta", 32.0, _delta, "the same files, added to the table by each subtask ahead of the checkpoint"),
        Case("files", 32.0, _files, "the same Parquet files, written in their place"),
    )
}


def measure(
    where: Callable[[], Any], names: Sequence[str], rows: int, rounds: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Returns rows per second of each sink with both guarantees, and what exactly once keeps of at least once."""
    directory = Path(temporary())
    found: dict[str, Any] = {}
    try:
        with contextlib.ExitStack() as stack:
            places = Places(directory, stack)
            for name in names:
                found[name] = _compared(where, CASES[name], places, rows, rounds)
                tell(_line(name, found[name]))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return found


def _compared(where: Callable[[], Any], case: Case, places: Places, rows: int, rounds: int) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {guarantee: [] for guarantee in GUARANTEES}
    for number in range(rounds):
        # Who comes first alternates: the state of the machine may drift.
        for guarantee in GUARANTEES if number % 2 == 0 else reversed(GUARANTEES):
            runs[guarantee].append(_run(where, case, places, max(int(rows * case.share), 1), guarantee))
    middle = {name: statistics.median(item["rows_per_second"] for item in items) for name, items in runs.items()}
    ratios = [
        exact["rows_per_second"] / plain["rows_per_second"]
        for plain, exact in zip(runs["at_least_once"], runs["exactly_once"], strict=True)
    ]
    return {
        "rows": runs["exactly_once"][0]["rows"],
        **{name: {"rows_per_second": middle[name], "runs": runs[name]} for name in GUARANTEES},
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "at least once is": case.baseline or "guarantee='at_least_once'",
    }


def _run(where: Callable[[], Any], case: Case, places: Places, rows: int, guarantee: str) -> dict[str, Any]:
    with _job(case, places, rows, guarantee) as (job, first, place):
        figures = timed(job, where(), first, rows)
        wanted = rows if case.keys is None else min(case.keys, rows)
        if (there := place.count()) != wanted:
            raise RuntimeError(f"{case.name}, {guarantee}: {there} rows are there, not {wanted}")
        place.remove()
    return {name: value for name, value in figures.items() if name != "timed"}


@contextlib.contextmanager
def _job(case: Case, places: Places, rows: int, guarantee: str) -> Iterator[tuple[sl.Job, Path, Place]]:
    directory = Path(temporary())
    first = directory / "first"
    try:
        job = sl.Job(
            f"{case.name} {guarantee}",
            parallelism=PARALLELISM,
            checkpoints=sl.Checkpoints(interval=f"{INTERVAL_S}s", storage=str(directory / "checkpoints")),
        )
        function = partial(rows_from, case.keys, first)
        source = sl.sources.Generate(function, rows, schema=SCHEMA, batch_rows=_BATCH_ROWS)
        place = case.make(places, guarantee)
        job.source(source, uid="rows").sink(place.sink, uid="out")
        yield job, first, place
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _topic_rows(bootstrap: str, topic: str) -> int:
    """Counted by reading: offsets also count the ends of transactions."""
    return sum(1 for _ in committed_messages(bootstrap, topic))


def _delete_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result()


def _table_rows(dsn: str, table: str) -> int:
    import psycopg

    with psycopg.connect(dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()  # noqa: S608
    assert row is not None
    return int(row[0])


def _drop_table(dsn: str, table: str) -> None:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP TABLE {table}".encode())


def _delta_rows(folder: str) -> int:
    import deltalake

    return int(deltalake.DeltaTable(folder).count())


def _file_rows(folder: str) -> int:
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(path).metadata.num_rows for path in Path(folder).glob("*.parquet"))


def _line(name: str, found: dict[str, Any]) -> str:
    rates = "".join(
        f"{guarantee.replace('_', ' ')} {found[guarantee]['rows_per_second']:11,.0f} rows/s   "
        for guarantee in GUARANTEES
    )
    return f"  {name:<24}{rates}keeps {found['ratio']:.0%}"

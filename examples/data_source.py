"""Copy rows from one PySpark data source to another, exactly once: both are plain Python classes, which Spark runs too.

Run it with `python examples/data_source.py`. It needs pyspark, but no SparkSession: the job runs in threads of this
process. On Spark, give `run` the session instead of the cluster.
"""

# ruff: noqa: ARG002, N802, N803  # the names are PySpark's

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

import snapline as sl
from snapline.testing import ThreadCluster


class Orders(DataSource):
    """A shop: order number n is of customer n % 3. There are as many as the option `available` says."""

    def schema(self) -> str:
        return "number BIGINT, customer STRING"

    def streamReader(self, schema: StructType) -> "OrderReader":
        return OrderReader(int(self.options["available"]))


@dataclass
class Numbers(InputPartition):
    start: int
    end: int


class OrderReader(DataSourceStreamReader):
    def __init__(self, available: int) -> None:
        self.available = available

    def initialOffset(self) -> dict[str, int]:
        return {"number": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # Spark takes it with and without arguments
        return {"number": self.available}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Numbers(at, min(at + 250, end["number"])) for at in range(start["number"], end["number"], 250)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str]]:
        assert isinstance(partition, Numbers)
        for number in range(partition.start, partition.end):
            yield number, f"customer-{number % 3}"


class Ledger(DataSource):
    """An SQLite database. A batch and its id are written in one transaction, and an id that is there is left out."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> "LedgerWriter":
        return LedgerWriter(self.options["path"])


@dataclass
class Lines(WriterCommitMessage):
    rows: list[tuple[int, str]]


class LedgerWriter(DataSourceStreamWriter):
    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, iterator: Iterator[Row]) -> Lines:
        return Lines([(row.number, row.customer) for row in iterator])

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with closing(sqlite3.connect(self.path)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY)")
            database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER, customer TEXT)")
            if database.execute("SELECT 1 FROM batches WHERE id = ?", (batchId,)).fetchone():
                return
            database.execute("INSERT INTO batches VALUES (?)", (batchId,))
            for message in messages:
                assert isinstance(message, Lines)
                database.executemany("INSERT INTO orders VALUES (?, ?)", message.rows)


def make_job(directory: str) -> sl.Job:
    job = sl.Job("orders", parallelism=2, checkpoints=sl.Checkpoints(interval="100ms", storage=f"{directory}/chk"))
    orders = job.source(sl.sources.DataSource(Orders, {"available": 1000}, bounded=True), uid="orders")
    orders.sink(sl.sinks.DataSource(Ledger, {"path": f"{directory}/ledger.db"}), uid="ledger")
    return job


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        print(make_job(directory).run(ThreadCluster()))
        with closing(sqlite3.connect(f"{directory}/ledger.db")) as ledger:
            for customer, count in ledger.execute("SELECT customer, count(*) FROM orders GROUP BY 1 ORDER BY 1"):
                print(customer, count)

"""A Structured Streaming query on Snapline: as a DataFrame and as SQL, with one line changed.

Run it with `python examples/streaming_query.py`. The second part stops, more orders come, and it goes on.
"""

import json
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions

import snapline as sl

ORDERS = [
    ("2026-03-01T12:00:05Z", "ann", 30),
    ("2026-03-01T12:00:20Z", "bob", 80),
    ("2026-03-01T12:01:10Z", "ann", 45),
    ("2026-03-01T12:01:40Z", "ann", 60),
    ("2026-03-01T12:03:00Z", "bob", 10),
]


def write(directory: Path, name: str, orders: list[tuple[str, str, int]]) -> None:
    """A file appears whole: written under a hidden name, then renamed."""
    hidden = directory / f".{name}"
    rows = [{"at": at, "customer": customer, "amount": amount} for at, customer, amount in orders]
    hidden.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    hidden.rename(directory / f"{name}.json")


def per_minute(orders: DataFrame) -> DataFrame:
    """What each customer spends in each minute."""
    minutes = orders.withWatermark("at", "10 seconds").groupBy(functions.window("at", "1 minute"), "customer")
    return minutes.agg(functions.sum("amount").alias("spent")).select("window.start", "customer", "spent")


def main(spark: SparkSession) -> None:
    place = Path(tempfile.mkdtemp(prefix="orders-"))
    (place / "in").mkdir()
    write(place / "in", "first", ORDERS)
    orders = spark.readStream.schema("at timestamp, customer string, amount long").json(str(place / "in"))

    query = (
        sl.write_stream(per_minute(orders))  # was: per_minute(orders).writeStream
        .format("parquet")
        .option("checkpointLocation", f"{place}/checkpoints")
        .trigger(availableNow=True)
        .start(f"{place}/out")
    )
    query.awaitTermination()
    for row in spark.read.parquet(f"{place}/out").orderBy("start", "customer").collect():
        print(f"{row.start:%H:%M} {row.customer} {row.spent}")

    orders.createOrReplaceTempView("orders")
    totals = spark.sql("SELECT customer, sum(amount) AS spent FROM orders GROUP BY customer")

    def show(batch: DataFrame, batch_id: int) -> None:
        del batch_id
        print("in all:", ", ".join(f"{row.customer} {row.spent}" for row in batch.orderBy("customer").collect()))

    for more in ([], [("2026-03-01T12:04:00Z", "bob", 90)]):
        if more:
            write(place / "in", "second", more)
        writer = sl.write_stream(totals).outputMode("complete").foreachBatch(show)
        running = writer.option("checkpointLocation", f"{place}/totals").start()
        running.processAllAvailable()
        running.stop()


if __name__ == "__main__":
    main(SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false").getOrCreate())

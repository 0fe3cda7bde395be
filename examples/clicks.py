"""Count clicks per user on Spark, and write the counts to files. Run it with `python examples/clicks.py`."""

import tempfile

import pyarrow.compute as pc
from pyspark.sql import SparkSession

import snapline as sl

data = tempfile.mkdtemp(prefix="clicks-")  # on a cluster: a place that all machines can reach
job = sl.Job("clicks", parallelism=2, checkpoints=sl.Checkpoints(interval="1s", storage=f"{data}/checkpoints"))
(
    job.source(sl.sources.Rate(10_000, rows=30_000, users=5), uid="clicks")
    .filter(pc.field("value") > 0)
    .key_by("user")
    .aggregate(n=sl.count(), total=sl.sum("value"), uid="per-user")
    .sink(sl.sinks.Files(f"{data}/counts"), uid="counts")
)

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    print(job.run(spark))  # or job.start(spark), which returns at once
    spark.read.parquet(f"{data}/counts").groupBy("user").max("n", "total").orderBy("user").show()

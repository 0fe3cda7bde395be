"""Read orders from PostgreSQL and keep the total of each customer in another table, exactly once.

Run it with `python examples/postgres.py postgresql://user@host:5432/database`.
"""

import sys
import tempfile

import psycopg

import snapline as sl
from snapline.testing import ThreadCluster

dsn = sys.argv[1]
with psycopg.connect(dsn) as connection:
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL)")
    connection.execute("INSERT INTO orders SELECT n, 'customer-' || n % 3, n FROM generate_series(1, 3000) AS n")

storage = tempfile.mkdtemp(prefix="postgres-")  # on a cluster: a place that all machines can reach
job = sl.Job("totals", parallelism=2, checkpoints=sl.Checkpoints(interval="1s", storage=storage))
(
    job.source(sl.sources.Postgres(dsn, "orders", splits=4), uid="orders")
    .key_by("customer")
    .aggregate(n=sl.count(), total=sl.sum("amount"), uid="totals")
    .sink(sl.sinks.Postgres(dsn, "totals", mode="upsert", key=["customer"], create_table=True), uid="out")
)

if __name__ == "__main__":
    print(job.run(ThreadCluster()))  # on Spark: the SparkSession
    with psycopg.connect(dsn) as connection:
        for row in connection.execute("SELECT customer, n, total FROM totals ORDER BY customer"):
            print(*row)

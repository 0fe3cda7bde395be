"""How fast the queries of Nexmark are: `python -m benchmarks.nexmark [--sql] [--events N] [--queries q0,q5] [--json]`.

Every query, written with the API or with `--sql` from its SQL text over streaming views, runs on `local[N]` at full
speed, without checkpoints; its answers are discarded. Events are persons, auctions and bids together, whether a query
reads all of them or not, as is usual for Nexmark. With `--check` the answers are compared with Spark's instead: the
other options are those of `benchmarks.nexmark.check`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys

from benchmarks.nexmark import check
from benchmarks.nexmark.check import query_names
from benchmarks.nexmark.queries import QUERIES
from benchmarks.nexmark.running import run_query
from benchmarks.nexmark.sql_queries import SqlQueries
from benchmarks.parts import conditions, spark_session


def main() -> int:
    if "--check" in sys.argv:
        return check.main([argument for argument in sys.argv[1:] if argument != "--check"])
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--sql", action="store_true", help="run the queries from their SQL texts")
    parser.add_argument("--events", type=int, default=5_000_000, help="of each run (5000000)")
    parser.add_argument("--queries", type=query_names, default=list(QUERIES), help="such as q0,q5 (all)")
    parser.add_argument("--parallelism", type=int, default=2, help="of all operators (2)")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each query; the median counts (1)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    spark = spark_session(f"local[{max(options.parallelism, 2)}]")
    sql = SqlQueries(spark) if options.sql else None
    results = {}
    try:
        for query in options.queries:
            times_s = [
                run_query(query, options.events, options.parallelism, spark, sql=sql) for _ in range(options.rounds)
            ]
            seconds = statistics.median(times_s)
            results[query] = {"seconds": seconds, "events_per_second": options.events / seconds, "times_s": times_s}
            told = f"{query:<4} {options.events / seconds:12,.0f} events/s   {QUERIES[query].title}"
            print(told, file=sys.stderr if options.json else sys.stdout, flush=True)
    finally:
        spark.stop()
    if options.json:
        figures = {
            "events": options.events,
            "from": "sql" if sql else "api",
            "parallelism": options.parallelism,
            "nexmark": results,
        }
        print(json.dumps({**figures, "conditions": conditions()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

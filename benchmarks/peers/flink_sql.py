"""Workloads in Flink SQL, run by an interpreter that has apache-flink.

`python -m benchmarks.peers.flink_sql totals --events N` counts and sums by key; `nexmark --queries q1,q5 --events N`
runs queries one after another. Prints one JSON object of the form {workload: figures}.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.checking import answer, checksum
from benchmarks.peers.flink_parts import Cluster, environments, number_view, version
from benchmarks.peers.nexmark_events import QUERIES, row_count, sql
from benchmarks.peers.nexmark_sql import ANSWER, KINDS, SQL, TIMES
from benchmarks.peers.workload import KEYS, PARALLELISM, key, value

MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1s",
    "table.exec.mini-batch.size": "50000",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=("totals", "nexmark"))
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--mini-batch", action="store_true")
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    made = {}
    for name in ["totals"] if options.workload == "totals" else options.queries.split(","):
        cluster = Cluster(PARALLELISM, **{"table.local-time-zone": "UTC"}, **(MINI_BATCH if options.mini_batch else {}))
        try:
            made[name] = run(cluster, name, options.events, options.keys, options.check)
        finally:
            cluster.close()
    print(json.dumps(made))


def run(cluster: Cluster, name: str, events: int, keys: int, is_check: bool) -> dict[str, Any]:
    made_environments = environments(cluster)
    tables = made_environments[1]
    if name == "totals":
        number_view(made_environments, "numbers", events)
        number = Sql("n")
        keyed = f"SELECT {key(number, keys)} AS k, {value(number)} AS v FROM numbers"  # noqa: S608
        query = f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM ({keyed}) GROUP BY k"  # noqa: S608
    else:
        for kind in KINDS.get(name, ("bid",)):
            rows = row_count(kind, events)
            columns = {column: str(expression) for column, expression in sql(kind, "f0", rows).items()}
            number_view(made_environments, kind, rows, columns)
        query = SQL[name]
    if is_check:
        return {"events": events, "version": version(), "result": collected(tables, name, query)}
    table = tables.sql_query(query)
    tables.create_temporary_table("dropped", _blackhole(table))
    timed = cluster.time(table.execute_insert("dropped").get_job_client())
    return {
        "events": events,
        "seconds": timed["seconds"],
        "events_per_second": events / timed["seconds"],
        "version": version(),
        "timed": "from when all tasks run to the end of the job",
        "conditions": {
            **cluster.conditions(),
            "checkpoints": timed["checkpoints"],
            "net_seconds": timed["net_seconds"],
        },
    }


def collected(tables: Any, name: str, query: str) -> dict[str, int]:
    """Returns the checksum of the final result of a query's changes."""
    from pyflink.common import RowKind

    if name != "totals":
        columns = (f"CAST(`{column}` AS STRING)" if column in TIMES else f"`{column}`" for column in ANSWER[name])
        query = f"SELECT {', '.join(columns)} FROM ({query})"  # noqa: S608
    left: dict[tuple[Any, ...], int] = {}
    with tables.sql_query(query).execute().collect() as changes:
        for change in changes:
            row = tuple(change)
            is_more = change.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
            left[row] = left.get(row, 0) + (1 if is_more else -1)
    rows = [row for row, count in left.items() for _ in range(count)]
    if name == "totals":
        return checksum(rows)
    return answer(name, rows)


def _blackhole(table: Any) -> Any:
    """Creates a table that drops what is written to it, with the columns of another one."""
    from pyflink.table import Schema, TableDescriptor

    schema = Schema.new_builder().from_resolved_schema(table.get_resolved_schema())
    return TableDescriptor.for_connector("blackhole").schema(schema.build()).build()


if __name__ == "__main__":
    main()

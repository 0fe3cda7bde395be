"""A Python function with value state in PyFlink, run by an interpreter that has apache-flink.

`python -m benchmarks.peers.flink_python --events N --mode process|thread` prints one JSON object. Rows come from
Flink's number sequence and SQL in the JVM, so no Python runs before the function and its key.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.checking import checksum, last_rows
from benchmarks.peers.flink_parts import Cluster, environments, number_view, version
from benchmarks.peers.workload import KEYS, PARALLELISM, key, value

SETTINGS = {
    "default": {},
    "large cache": {"python.state.cache-size": str(2 * KEYS)},
}
"""PyFlink keeps the state of 1,000 keys in the Python process by default; both are measured."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--mode", choices=("process", "thread"), required=True)
    parser.add_argument("--settings", choices=tuple(SETTINGS), default="default")
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    cluster = Cluster(PARALLELISM, **{"python.execution-mode": options.mode}, **SETTINGS[options.settings])
    try:
        print(json.dumps(run(cluster, options.events, options.keys, options.check)))
    finally:
        cluster.close()


def run(cluster: Cluster, events: int, keys: int, is_check: bool) -> dict[str, Any]:
    from pyflink.common import Types
    from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext
    from pyflink.datastream.connectors.base import Sink
    from pyflink.datastream.state import ValueStateDescriptor
    from pyflink.java_gateway import get_gateway

    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    directory = Path(cluster.directory)

    class Totals(KeyedProcessFunction):  # type: ignore[misc]
        """Also records when its first row arrived, so that the start of Python workers is not counted."""

        def open(self, runtime_context: RuntimeContext) -> None:
            pair = Types.TUPLE([Types.LONG(), Types.LONG()])
            self.state = runtime_context.get_state(ValueStateDescriptor("totals", pair))
            self.file = directory / f"first-{uuid.uuid4()}"
            self.is_first = True

        def process_element(self, value: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
            del ctx
            if self.is_first:
                self.is_first = False
                self.file.write_text(str(time.time()))
            count, total = self.state.value() or (0, 0)
            count, total = count + 1, total + value[1]
            self.state.update((count, total))
            yield value[0], count, total

    made_environments = environments(cluster)
    environment, tables = made_environments
    number_view(made_environments, "numbers", events)
    number = Sql("n")
    rows = tables.sql_query(f"SELECT {key(number, keys)} AS k, {value(number)} AS v FROM numbers")  # noqa: S608
    stream: DataStream = tables.to_data_stream(rows)
    totals = stream.key_by(lambda row: row[0], key_type=Types.LONG()).process(Totals(), output_type=kind)
    if is_check:
        with totals.execute_and_collect("check") as collected:
            return {"events": events, "version": version(), "result": checksum(last_rows(collected))}
    totals.sink_to(Sink(get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()))
    timed = cluster.time(environment.execute_async("totals"))
    first_s = min(float(path.read_text()) for path in directory.glob("first-*"))
    seconds = timed["ended_s"] - first_s
    return {
        "events": events,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "version": version(),
        "timed": "from the first row in the function to the end of the job",
        "conditions": {
            **cluster.conditions(),
            "checkpoints": timed["checkpoints"],
            "net_seconds": timed["net_seconds"],
        },
    }


if __name__ == "__main__":
    main()

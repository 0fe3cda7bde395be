"""The functions in PyFlink, run by an interpreter that has apache-flink.

`python -m benchmarks.functions.flink_functions --function NAME --events N --mode process|thread` prints one JSON
object. Rows come from Flink's number sequence and SQL in the JVM, so no Python runs before the function and its key.
"""

from __future__ import annotations

import argparse
import json
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks.functions.payments import CARDS, COLUMNS, FUNCTIONS, GAP_MS, KEEP_MS, LARGE, MUCH, TOP, check, columns
from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.flink_parts import Cluster, environments, version
from benchmarks.peers.workload import PARALLELISM


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", choices=FUNCTIONS, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--cards", type=int, default=CARDS)
    parser.add_argument("--mode", choices=("process", "thread"), required=True)
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    cache = {"python.state.cache-size": str(2 * CARDS), "python.map-state.read-cache-size": str(20 * CARDS)}
    cluster = Cluster(PARALLELISM, **{"python.execution-mode": options.mode}, **cache)
    try:
        print(json.dumps(run(cluster, options.function, options.events, options.cards, options.check)))
    finally:
        cluster.close()


def run(cluster: Cluster, function: str, events: int, cards: int, is_check: bool) -> dict[str, Any]:
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors.base import Sink
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource
    from pyflink.java_gateway import get_gateway
    from pyflink.table import Schema

    environment, tables = environments(cluster)
    # One source, so that the payments of a card keep their order.
    source = environment.from_source(
        NumberSequenceSource(0, events - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).set_parallelism(1)
    made_columns = columns(Sql("f0"), cards)
    schema = Schema.new_builder().column("f0", "BIGINT NOT NULL")
    for name, expression in zip(COLUMNS, made_columns, strict=True):
        schema = schema.column_by_expression(f"{name}_", str(expression))
    schema = schema.column_by_expression("at", f"TO_TIMESTAMP_LTZ({made_columns[COLUMNS.index('time')]}, 3)")
    schema = schema.watermark("at", "`at`")
    tables.create_temporary_view("payments", tables.from_data_stream(source, schema.build()))
    rows = tables.sql_query("SELECT n_, card_, time_, amount_, shop_, country_, `at` FROM payments")
    kind = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    keyed = tables.to_data_stream(rows).key_by(lambda row: row[1], key_type=Types.LONG())
    made = keyed.process(process_function(function, Path(cluster.directory)), output_type=kind)
    if is_check:
        with made.execute_and_collect("check") as collected:
            return {"events": events, "version": version(), "result": check([tuple(row) for row in collected])}
    made.sink_to(Sink(get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()))
    timed = cluster.time(environment.execute_async(function))
    first_s = min(float(path.read_text()) for path in Path(cluster.directory).glob("first-*"))
    seconds = timed["ended_s"] - first_s
    return {
        "events": events,
        "seconds": seconds,
        "events_per_second": events / seconds,
        "version": version(),
        "timed": "from the first row in the function to the end of the job",
        "conditions": {**cluster.conditions(), "checkpoints": timed["checkpoints"]},
    }


def process_function(function: str, directory: Path) -> Any:
    """The function; it also records when its first row arrived, so that the start of Python workers is not counted."""
    from pyflink.common import Types
    from pyflink.datastream import KeyedProcessFunction, RuntimeContext
    from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

    def longs(count: int) -> Any:
        return Types.TUPLE([Types.LONG()] * count)

    class Timed(KeyedProcessFunction):  # type: ignore[misc]
        def open(self, runtime_context: RuntimeContext) -> None:
            (directory / f"first-{uuid.uuid4()}").write_text(str(time.time()))
            self.declare(runtime_context)

    class Count(Timed):
        def declare(self, context: RuntimeContext) -> None:
            self.totals = context.get_state(ValueStateDescriptor("totals", longs(2)))

        def process_element(self, value: Any, ctx: Any) -> Any:
            count, total = self.totals.value() or (0, 0)
            count, total = count + 1, total + value[3]
            self.totals.update((count, total))
            yield value[1], count, total

    class Sessions(Timed):
        def declare(self, context: RuntimeContext) -> None:
            self.session = context.get_state(ValueStateDescriptor("session", longs(3)))

        def process_element(self, value: Any, ctx: Any) -> Any:
            now_ms, session = value[2], self.session.value()
            if session is not None and now_ms - session[1] > GAP_MS:
                yield value[1], session[0], session[2]
                session = None
            if session is None:
                session = (now_ms, now_ms, 0)
            else:
                ctx.timer_service().delete_event_time_timer(session[1] + GAP_MS + 1)
            self.session.update((session[0], now_ms, session[2] + 1))
            ctx.timer_service().register_event_time_timer(now_ms + GAP_MS + 1)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            session = self.session.value()
            if session is not None and timestamp > session[1] + GAP_MS:
                yield ctx.get_current_key(), session[0], session[2]
                self.session.clear()

    class Fraud(Timed):
        def declare(self, context: RuntimeContext) -> None:
            self.recent = context.get_map_state(MapStateDescriptor("recent", Types.LONG(), longs(2)))
            self.shops = context.get_map_state(MapStateDescriptor("shops", Types.LONG(), Types.LONG()))
            self.home = context.get_state(ValueStateDescriptor("home", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            number, card, now_ms, amount, shop, country = (value[place] for place in range(6))
            spent, countries = amount, {country}
            for at_ms, other in self.recent.items():
                if at_ms > now_ms - KEEP_MS:
                    spent += other[0]
                    countries.add(other[1])
            self.recent.put(now_ms, (amount, country))
            ctx.timer_service().register_event_time_timer(now_ms + KEEP_MS)
            seen = self.shops.get(shop) or 0
            self.shops.put(shop, seen + 1)
            home = self.home.value()
            if home is None:
                home = country
                self.home.update(country)
            if (spent > MUCH and seen == 0) or (amount > LARGE and country != home and len(countries) > 1):
                yield card, number, spent

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            self.recent.remove(timestamp - KEEP_MS)
            return ()

    class TopK(Timed):
        def declare(self, context: RuntimeContext) -> None:
            self.best = context.get_list_state(ListStateDescriptor("best", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            best, amount = list(self.best.get() or ()), value[3]
            if len(best) < TOP or amount > best[-1]:
                best.append(amount)
                best.sort(reverse=True)
                self.best.update(best[:TOP])
                yield value[1], value[0], sum(best[:TOP])

    return {"count": Count, "sessions": Sessions, "fraud": Fraud, "topk": TopK}[function]()


if __name__ == "__main__":
    main()

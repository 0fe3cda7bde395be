"""The functions in Spark's `transformWithState`, with rows or pandas.

`python -m benchmarks.functions.spark_functions --function NAME --events N --form rows|pandas` prints one JSON object.
Every micro-batch is a checkpoint, so batches are sized to take about one second. Every call gets the rows of one key in
a batch; states are read and written row by row, as in the other systems.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.functions.payments import (
    CARDS,
    COLUMNS,
    FUNCTIONS,
    GAP_MS,
    KEEP_MS,
    LARGE,
    MUCH,
    RESULT,
    TOP,
    check,
    columns,
)
from benchmarks.peers.arithmetic import Sql
from benchmarks.peers.structured_streaming import LONGEST_S, SHORTEST_S, TIMEOUT_S, TRIAL_BATCHES, session

OUTPUT = ", ".join(f"{name} BIGINT" for name in RESULT)
FIRST_ROWS = 4_000
TRIALS = 3
"""How many short queries search for the size of a batch that takes a second."""
TIMED = frozenset({"sessions", "fraud"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", choices=FUNCTIONS, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--cards", type=int, default=CARDS)
    parser.add_argument("--form", choices=("rows", "pandas"), required=True)
    parser.add_argument("--check", action="store_true", help="collect the results instead of measuring")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="spark-functions-"))
    spark = session("rocksdb")
    try:
        queries = Queries(spark, options.function, options.form, options.cards, directory)
        made = queries.checked(options.events) if options.check else queries.measured(options.events)
        print(json.dumps({**made, "version": f"pyspark {spark.version}"}))
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)


class Queries:
    """Starts the query repeatedly, each time from the beginning."""

    def __init__(self, spark: Any, function: str, form: str, cards: int, directory: Path) -> None:
        self._spark = spark
        self._function = function
        self._form = form
        self._cards = cards
        self._directory = directory
        self._number = 0

    def run(self, events: int, batch_rows: int, sink: Callable[[Any, int], None] | None = None) -> list[dict[str, Any]]:
        """Runs over `events` events and returns Spark's report on each of their batches."""
        self._number += 1
        # One partition, so that the payments of a card keep their order.
        source = self._spark.readStream.format("rate-micro-batch").options(rowsPerBatch=batch_rows, numPartitions=1)
        named = zip(COLUMNS, columns(Sql("value"), self._cards), strict=True)
        # SQL divides whole numbers to fractions unless told otherwise.
        rows = source.load().selectExpr(*(f"{str(made).replace(' / ', ' DIV ')} AS {name}" for name, made in named))
        # What follows the last event only moves the watermark far ahead, so that all timers fire.
        after_ms = f"if(n < {events}, time, time + {10 * KEEP_MS})"
        card = f"if(n < {events}, card, -1) AS card"
        rows = rows.selectExpr("n", card, "time", "amount", "shop", "country", f"timestamp_millis({after_ms}) AS at")
        rows = rows.withWatermark("at", "0 seconds").groupBy("card")
        mode = "EventTime" if self._function in TIMED else "None"
        call = rows.transformWithStateInPandas if self._form == "pandas" else rows.transformWithState
        made = call(processor(self._function, self._form), OUTPUT, outputMode="Update", timeMode=mode)
        writer = made.where("card >= 0").writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(self._directory / f"checkpoint-{self._number}"))
        query = (writer.format("noop") if sink is None else writer.foreachBatch(sink)).start()
        batches = math.ceil(events / batch_rows)
        after = 3 if sink is not None and mode == "EventTime" else 0
        deadline_s = time.monotonic() + TIMEOUT_S
        try:
            while len(done := [item for item in query.recentProgress if item["numInputRows"]]) < batches + after:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{len(done)} of {batches} batches after {TIMEOUT_S} s")
                time.sleep(0.1)
        finally:
            query.stop()
        return done[:batches]

    def measured(self, events: int) -> dict[str, Any]:
        rows = FIRST_ROWS
        for _ in range(TRIALS):
            durations = [item["durationMs"]["triggerExecution"] / 1000 for item in self.run(rows * TRIAL_BATCHES, rows)]
            duration_s = statistics.median(durations[1:])
            if SHORTEST_S <= duration_s <= LONGEST_S:
                break
            rows = max(1000, int(rows * min(max(1 / duration_s, 0.25), 4)))
        rows = max(1, min(rows, events // TRIAL_BATCHES))
        batches = self.run(events, rows)
        # The first one includes planning and compilation.
        seconds = sum(item["durationMs"]["triggerExecution"] for item in batches[1:]) / 1000
        counted = sum(item["numInputRows"] for item in batches[1:])
        return {
            "events": counted,
            "seconds": seconds,
            "events_per_second": counted / seconds,
            "timed": "all micro-batches of a query but its first, by what Spark tells of their execution",
            "conditions": {"state store": "rocksdb", "rows in a batch": rows, "batches": len(batches)},
        }

    def checked(self, events: int) -> dict[str, Any]:
        found: list[Any] = []
        self.run(events, max(events // TRIAL_BATCHES, 1), lambda frame, _: found.extend(map(tuple, frame.collect())))
        return {"events": events, "result": check(found)}


def processor(function: str, form: str) -> Any:
    """The function as a processor of rows or of pandas. Subclasses have `each` and perhaps `timer`."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Base(StatefulProcessor):
        def declare(self, handle: Any) -> None:
            raise NotImplementedError

        def each(self, n: int, card: int, at: int, amount: int, shop: int, country: int) -> Iterator[Any]:
            raise NotImplementedError

        def timer(self, card: int, time_ms: int) -> Iterator[Any]:
            raise NotImplementedError

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.declare(handle)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            del timerValues
            if form == "rows":
                # A batch is grouped by key, which loses the order.
                given = sorted(tuple(row[name] for name in COLUMNS) for row in rows)
            else:
                frames = [frame[list(COLUMNS)].to_numpy().tolist() for frame in rows]
                given = sorted(tuple(row) for frame in frames for row in frame)
            return self.results([made for row in given for made in self.each(*row)] if key[0] >= 0 else [])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
            del timerValues
            return self.results(list(self.timer(key[0], expiredTimerInfo.get_expiry_time_in_ms())))

        def results(self, made: list[tuple[int, int, int]]) -> Iterator[Any]:
            if form == "rows":
                return (Row(**dict(zip(RESULT, row, strict=True))) for row in made)
            import pandas

            return iter([pandas.DataFrame(made, columns=list(RESULT))] if made else [])

        def close(self) -> None:
            """Nothing to release."""

    class Count(Base):
        def declare(self, handle: Any) -> None:
            self.totals = handle.getValueState("totals", "n BIGINT, s BIGINT")

        def each(self, n: int, card: int, at: int, amount: int, shop: int, country: int) -> Iterator[Any]:
            count, total = self.totals.get() or (0, 0)
            self.totals.update((count + 1, total + amount))
            yield card, count + 1, total + amount

    class Sessions(Base):
        def declare(self, handle: Any) -> None:
            self.session = handle.getValueState("session", "start BIGINT, last BIGINT, n BIGINT")

        def each(self, n: int, card: int, at: int, amount: int, shop: int, country: int) -> Iterator[Any]:
            session = self.session.get()
            if session is not None and at - session[1] > GAP_MS:
                yield card, session[0], session[2]
                self.handle.deleteTimer(session[1] + GAP_MS + 1)
                session = None
            if session is None:
                session = (at, at, 0)
            else:
                self.handle.deleteTimer(session[1] + GAP_MS + 1)
            self.session.update((session[0], at, session[2] + 1))
            self.handle.registerTimer(at + GAP_MS + 1)

        def timer(self, card: int, time_ms: int) -> Iterator[Any]:
            session = self.session.get()
            if session is not None and time_ms > session[1] + GAP_MS:
                self.session.clear()
                yield card, session[0], session[2]

    class Fraud(Base):
        def declare(self, handle: Any) -> None:
            self.recent = handle.getMapState("recent", "at BIGINT", "amount BIGINT, country BIGINT")
            self.shops = handle.getMapState("shops", "shop BIGINT", "n BIGINT")
            self.home = handle.getValueState("home", "country BIGINT")

        def each(self, n: int, card: int, at: int, amount: int, shop: int, country: int) -> Iterator[Any]:
            spent, countries = amount, {country}
            for (at_ms,), other in self.recent.iterator():
                if at_ms > at - KEEP_MS:
                    spent += other[0]
                    countries.add(other[1])
            self.recent.updateValue((at,), (amount, country))
            self.handle.registerTimer(at + KEEP_MS)
            before = self.shops.getValue((shop,))
            seen = 0 if before is None else before[0]
            self.shops.updateValue((shop,), (seen + 1,))
            home = self.home.get()
            if home is None:
                home = (country,)
                self.home.update(home)
            if (spent > MUCH and seen == 0) or (amount > LARGE and country != home[0] and len(countries) > 1):
                yield card, n, spent

        def timer(self, card: int, time_ms: int) -> Iterator[Any]:
            del card
            self.recent.removeKey((time_ms - KEEP_MS,))
            return iter(())

    class TopK(Base):
        def declare(self, handle: Any) -> None:
            self.best = handle.getListState("best", "amount BIGINT")

        def each(self, n: int, card: int, at: int, amount: int, shop: int, country: int) -> Iterator[Any]:
            best = [item[0] for item in self.best.get()]
            if len(best) < TOP or amount > best[-1]:
                best = sorted([*best, amount], reverse=True)[:TOP]
                self.best.put([(item,) for item in best])
                yield card, n, sum(best)

    return {"count": Count, "sessions": Sessions, "fraud": Fraud, "topk": TopK}[function]()


if __name__ == "__main__":
    main()

"""A stateful processor of PySpark, as it is, between two DataFrames: which sensors fall silent, and for how long.

Run it with `python examples/stateful_processor.py`. `Silence` knows nothing of Snapline: `transformWithState` of Spark
runs it too, and PySpark's `TwsTester` tests it.
"""

# ruff: noqa: ARG002, N802, N803  # the names are PySpark's

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import snapline as sl

LIMIT_MS = 10_000


class Silence(StatefulProcessor):
    """Tells of a sensor when nothing was heard of it for ten seconds of event time, and when it is back."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._last = handle.getValueState("last", "at_ms BIGINT")
        self._silent = handle.getValueState("silent", "since_ms BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        times = sorted(int(row.at.timestamp() * 1000) for row in rows)
        if not times:
            return
        if self._silent.exists():
            (since_ms,) = self._silent.get() or (0,)
            self._silent.clear()
            yield Row(sensor=key[0], event="back", after_ms=times[0] - since_ms)
        for timer_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer_ms)
        last_ms = max(times[-1], *(self._last.get() or (0,)))
        self._last.update((last_ms,))
        self._handle.registerTimer(last_ms + LIMIT_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self._silent.update(self._last.get() or (0,))
        yield Row(sensor=key[0], event="silent", after_ms=LIMIT_MS)


def readings(spark: SparkSession) -> DataFrame:
    """One each second of three sensors for a minute, but for 20 seconds of one and the last 30 of another."""
    return spark.sql(
        """
        SELECT CONCAT('sensor-', id % 3) AS sensor, TIMESTAMP_SECONDS(1767225600 + id DIV 3) AS at
        FROM RANGE(0, 180, 1, 1)
        WHERE NOT (id % 3 = 1 AND id DIV 3 BETWEEN 20 AND 39) AND NOT (id % 3 = 2 AND id DIV 3 >= 30)
        """
    )


def silences(spark: SparkSession) -> DataFrame:
    """Run a job over the readings, and give what the processor tells as a DataFrame."""
    job = sl.Job("silences", parallelism=2)
    return (  # type: ignore[no-any-return]
        job.from_dataframe(readings(spark), uid="readings", watermarks=sl.Watermarks("at", delay="5s"))
        .key_by("sensor")
        .transform_with_state(
            Silence(), "sensor STRING, event STRING, after_ms BIGINT", time_mode="event_time", uid="silence"
        )
        .to_dataframe(spark)
    )


if __name__ == "__main__":
    session = SparkSession.builder.master("local[2]").getOrCreate()
    silences(session).orderBy("sensor", "event").show()
    session.stop()

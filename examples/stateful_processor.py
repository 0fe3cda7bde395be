"""Run a PySpark StatefulProcessor unchanged between two DataFrames: which sensors fall silent, and for how long.

Run it with `python examples/stateful_processor.py`. `Silence` knows nothing of Snapline: Spark's
`transformWithState` runs it too, and PySpark's `TwsTester` tests it.
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
    """Reports a sensor after ten seconds of event time without a reading, and when it is back.

    Whether a timer or the next row reports a silence depends on which rows arrive together. That it is reported once
    does not.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._last = handle.getValueState("last", "at_ms BIGINT, is_told BOOLEAN")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for at_ms in sorted(int(row.at.timestamp() * 1000) for row in rows):
            last_ms, is_told = self._last.get() or (at_ms, False)
            if at_ms - last_ms >= LIMIT_MS:
                if not is_told:
                    yield Row(sensor=key[0], event="silent", after_ms=LIMIT_MS)
                yield Row(sensor=key[0], event="back", after_ms=at_ms - last_ms)
            if at_ms >= last_ms:
                self._last.update((at_ms, False))
        for timer_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer_ms)
        last_ms, is_told = self._last.get() or (0, True)
        if not is_told:
            self._handle.registerTimer(last_ms + LIMIT_MS)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self._last.update((expiredTimerInfo.getExpiryTimeInMs() - LIMIT_MS, True))
        yield Row(sensor=key[0], event="silent", after_ms=LIMIT_MS)


def readings(spark: SparkSession) -> DataFrame:
    """Returns one reading per second of three sensors for a minute; one pauses for 20 seconds, one stops after 30."""
    return spark.sql(
        """
        SELECT CONCAT('sensor-', id % 3) AS sensor, TIMESTAMP_SECONDS(1767225600 + id DIV 3) AS at
        FROM RANGE(0, 180, 1, 1)
        WHERE NOT (id % 3 = 1 AND id DIV 3 BETWEEN 20 AND 39) AND NOT (id % 3 = 2 AND id DIV 3 >= 30)
        """
    )


def silences(spark: SparkSession) -> DataFrame:
    """Runs a job over the readings and returns the processor's rows as a DataFrame."""
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

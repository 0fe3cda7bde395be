"""What a test says about a query, recorded instead of started by Structured Streaming."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Call:
    """A call of `transformWithState` or `transformWithStateInPandas` on the rows of `frame`, grouped by `keys`."""

    frame: DataFrame
    keys: tuple[str, ...]
    format: str
    processor: Any
    schema: Any
    time_mode: str
    output_mode: str
    initial_state: Any
    event_time_column: str | None
    analyzed: DataFrame
    """What Spark makes of the call: its analysis has checked the arguments."""


@dataclass(frozen=True)
class RecordedFrame:
    """The result of a call on a streaming DataFrame, and what the test does with it.

    `counted_by` are the columns by which the rows are counted behind the processor. `select` is applied by Spark to
    the rows of each batch.
    """

    call: Call
    counted_by: tuple[str, ...] = ()
    projection: tuple[Any, ...] = ()

    @property
    def isStreaming(self) -> bool:  # noqa: N802  # PySpark's name
        return True

    def select(self, *columns: Any) -> RecordedFrame:
        return replace(self, projection=columns)

    def groupBy(self, *columns: Any) -> RecordedGroups:  # noqa: N802  # PySpark's name
        names = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else list(columns)
        return RecordedGroups(self, tuple(names))

    @property
    def writeStream(self) -> RecordedWriter:  # noqa: N802  # PySpark's name
        return RecordedWriter(self)


@dataclass(frozen=True)
class RecordedGroups:
    """The rows behind a processor, grouped."""

    frame: RecordedFrame
    keys: tuple[str, ...]

    def count(self) -> RecordedFrame:
        return replace(self.frame, counted_by=self.keys)


@dataclass
class RecordedWriter:
    """In place of a `DataStreamWriter`. `start_query` is what starts the recorded query."""

    frame: RecordedFrame
    name: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    function: Callable[[DataFrame, int], None] | None = None

    start_query: Callable[[RecordedWriter], Any] | None = None
    """Set on the class, once, by the runner."""

    @property
    def session(self) -> SparkSession:
        return self.frame.call.frame.sparkSession

    def queryName(self, name: str) -> RecordedWriter:  # noqa: N802  # PySpark's name
        self.name = name
        return self

    def option(self, name: str, value: Any) -> RecordedWriter:
        self.options[name] = str(value)
        return self

    def format(self, name: str) -> RecordedWriter:
        return self.option("format", name)

    def outputMode(self, mode: str) -> RecordedWriter:  # noqa: N802  # PySpark's name
        return self.option("outputMode", mode)

    def foreachBatch(self, function: Callable[[DataFrame, int], None]) -> RecordedWriter:  # noqa: N802
        self.function = function
        return self

    def start(self) -> Any:
        assert RecordedWriter.start_query is not None
        return RecordedWriter.start_query(self)

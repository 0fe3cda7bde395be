"""A recorded query, run by a Snapline job: micro-batch by micro-batch, with a checkpoint after each."""

from __future__ import annotations

import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
from benchmarks.spark_tests.feed import BatchWatermarks, Feed, FeedSink, FeedSource
from benchmarks.spark_tests.recorded import Call, RecordedWriter
from pyspark.errors.exceptions.captured import StreamingQueryException
from pyspark.sql import DataFrame

import snapline as sl
from snapline.api.job_handle import SnapshotFailedError
from snapline.api.stream import Stream
from snapline.contracts.schemas import checked_schema
from snapline.errors import SnaplineError
from snapline.spark.state_frames import read_state
from snapline.spark.stateful.processor_operator import TransformWithState
from snapline.testing import ThreadCluster

PARALLELISM = 1
QUERIES: dict[str, Query] = {}
"""The last query with each checkpoint location."""

TIMEOUT_S = 60
_TIMEOUT = f"{TIMEOUT_S}s"
_POLL_S = 0.05
_RETAINED = 20


class Query:
    """In place of a `StreamingQuery`. All input there is, is handled by `processAllAvailable`."""

    def __init__(self, writer: RecordedWriter) -> None:
        self.name = writer.name
        self._writer = writer
        given = writer.options.get("checkpointLocation")
        self._place = Path(given or tempfile.mkdtemp(prefix="snapline-query-"))
        self._is_stopped = False
        self._failure: StreamingQueryException | None = None
        self._counts: dict[str, int] = {}
        self._snapshots: list[str] = []
        self._is_calling = False
        before = QUERIES.get(str(self._place))
        self._savepoint: str | None = None if before is None else before._savepoint
        self._ends: int = 0 if before is None else before._ends
        QUERIES[str(self._place)] = self

    def state(self, name: str, *, flatten: bool) -> DataFrame:
        """Returns a state as it was after the last batch that is done: not that whose function is being called."""
        call = self._writer.frame.call
        path = self._snapshots[-2 if self._is_calling else -1]
        return read_state(self._writer.session, path, f"stateful/{name}", key_columns=call.keys, flatten=flatten)

    @property
    def isActive(self) -> bool:  # noqa: N802  # PySpark's name
        return not self._is_stopped and self._failure is None

    @property
    def lastProgress(self) -> Any:  # noqa: N802  # PySpark's name
        return SimpleNamespace(stateOperators=[SimpleNamespace(customMetrics=self._counts)])

    def processAllAvailable(self) -> None:  # noqa: N802  # PySpark's name
        try:
            self._run()
        except Exception as error:
            told = f"[STREAM_FAILED] the query {self.name!r} failed: {error}"
            self._failure = StreamingQueryException(told, stackTrace=traceback.format_exc())
            raise self._failure from error

    def stop(self) -> None:
        self._is_stopped = True

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802  # PySpark's name
        return True

    def exception(self) -> StreamingQueryException | None:
        return self._failure

    def _run(self) -> None:
        call = self._writer.frame.call
        batches = input_batches(call.frame, self._place / "input")
        feed = Feed()
        checkpoints = sl.Checkpoints(
            interval=None,
            storage=self._place / "checkpoints",
            retained=_RETAINED,
            restore_from=self._savepoint,
            savepoint_dir=self._place / "savepoints",
        )
        job = sl.Job(
            self.name or "query",
            id=f"query-{self._ends}",  # a job that was stopped cannot go on under its id
            parallelism=PARALLELISM,
            checkpoints=checkpoints,
            restart=sl.NoRestart(),
        )
        rows = job.source(FeedSource(feed, arrow_schema(call.frame)), uid="input", parallelism=1)
        stream = self._behind(rows, call)
        path = self._writer.options.get("path")
        sink = FeedSink(feed) if path is None else sl.sinks.Files(path)
        stream.sink(sink, uid="output")
        handle = job.start(ThreadCluster())
        try:
            for number, batch in batches:
                feed.release(number, batch)
                self._await_read(feed, number, handle)
                self._snapshots.append(handle.checkpoint(timeout=_TIMEOUT))
                if self._writer.function is not None:
                    self._call(number, feed.take_output(), stream.schema)
            if path is not None:
                # All output is committed then.
                self._savepoint = handle.stop(timeout=_TIMEOUT)
                self._ends += 1
        except SnapshotFailedError:
            handle.wait(_TIMEOUT)  # raises what failed the job, if that is why
            raise
        finally:
            if handle.status() is sl.JobStatus.RUNNING:
                handle.suspend(timeout=_TIMEOUT)

    def _behind(self, rows: Stream, call: Call) -> Stream:
        """Returns the stream that the query writes."""
        event_time = event_time_of(call.frame)
        if event_time is not None:
            column, delay_ms = event_time
            rows = rows._then("watermarks", BatchWatermarks(column, delay_ms), rows.schema, None, 1, time_column=column)
        stream = transformed(rows, call)
        operator = stream._inputs[0].node.operator
        assert isinstance(operator, TransformWithState)
        self._counts = dict(operator.state_counts)
        keys = self._writer.frame.counted_by
        if keys:
            counts = stream.key_by(*keys).window(sl.Tumbling("1ms")).aggregate(count=sl.count(), uid="counts")
            stream = counts.select(*keys, "count")
        return stream

    def _await_read(self, feed: Feed, number: int, handle: sl.JobHandle) -> None:
        until_s = time.monotonic() + TIMEOUT_S
        while not feed.was_read(number, _POLL_S):
            if handle.status().is_globally_terminal:
                handle.wait()  # raises what failed it
            if handle.status().is_globally_terminal or time.monotonic() > until_s:
                raise SnaplineError(f"the job has not read batch {number} and is {handle.status().value}")

    def _call(self, number: int, output: list[pa.RecordBatch], schema: pa.Schema) -> None:
        assert self._writer.function is not None
        # Through a file, since createDataFrame fails for tables where a setting of the tests is -1.
        path = self._place / "output" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.Table.from_batches(output, schema), path)
        frame = self._writer.session.read.parquet(str(path))
        projection = self._writer.frame.projection
        self._is_calling = True
        self._writer.function(frame.select(*projection) if projection else frame, number)
        self._is_calling = False


def transformed(rows: Stream, call: Call) -> Stream:
    """Returns what the processor of a call returns for the rows."""
    return rows.key_by(*call.keys).transform_with_state(
        call.processor,
        call.schema,
        time_mode=call.time_mode,
        output_mode=call.output_mode,
        initial_state=call.initial_state,
        format=call.format,
        event_time_column=call.event_time_column or None,
        micro_batches=True,
        conf=call.frame.sparkSession.conf.getAll,
        uid="stateful",
    )


def run_batch(call: Call) -> DataFrame:
    """Returns what the processor returns for the rows of a DataFrame that does not stream."""
    job = sl.Job("batch", parallelism=PARALLELISM)
    rows = job.source(
        sl.sources.Iterator(call.frame.toArrow().to_pylist(), schema=arrow_schema(call.frame)), uid="input"
    )
    table = transformed(rows, call).collect(ThreadCluster())
    return call.frame.sparkSession.createDataFrame(table)


def arrow_schema(frame: DataFrame) -> pa.Schema:
    return checked_schema(frame.schema, "the input of the query")


def input_batches(frame: DataFrame, place: Path) -> list[tuple[int, pa.RecordBatch]]:
    """Returns the rows that the processor is given, micro-batch by micro-batch: Spark reads and selects them."""
    schema = arrow_schema(frame)
    found: list[tuple[int, pa.RecordBatch]] = []

    def take(batch: DataFrame, number: int) -> None:
        table = batch.toArrow().cast(schema)
        if table.num_rows:
            found.append((number, table.combine_chunks().to_batches()[0]))

    query = (
        frame.writeStream.foreachBatch(take).option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return found


def event_time_of(frame: DataFrame) -> tuple[str, int] | None:
    """Returns the column of `withWatermark` and its delay in milliseconds."""
    for field in frame.schema:
        metadata = field.metadata or {}
        if "spark.watermarkDelayMs" in metadata:
            return field.name, int(metadata["spark.watermarkDelayMs"])
    return None

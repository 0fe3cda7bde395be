"""`write_stream(df)` in place of `df.writeStream`: the query runs on Snapline."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame

from snapline.api.job import Job
from snapline.config import Checkpoints, Execution
from snapline.connectors import sinks
from snapline.contracts.sink import Sink
from snapline.errors import ConfigurationError
from snapline.sql.catalyst.catalog_tables import create_table, table_files
from snapline.sql.catalyst.data_sources import python_data_source
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.driver_tables import ConsoleTable, MemoryTable, NoRows, RowCalls
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.output_modes import output_stream
from snapline.sql.lowering.written_lines import csv_header, written_lines
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared
from snapline.sql.query import StreamingQuery
from snapline.sql.query_steps import QuerySteps
from snapline.sql.state_reader import install_state_reader
from snapline.sql.trigger_intervals import interval_ms
from snapline.storage.storage_factory import has_checkpoints, has_ended

_MODES = ("append", "update", "complete")
_FILES = ("parquet", "json", "csv", "orc", "text")
_LINES = ("json", "csv")
"""Formats whose files are written as text, line by line."""
_APPEND_ONLY = (*_FILES, "delta")
_FOR_LOOKING = ("memory", "console", "noop")
_NO_STORAGE = (*_FOR_LOOKING, "foreach", "foreachBatch")
_DEFAULT_INTERVAL_MS = 1000
_LEAST_INTERVAL_MS = 10
_BUILT_IN = (*_APPEND_ONLY, *_FOR_LOOKING, "kafka")
_OPTIONS = ("checkpointlocation", "parallelism", "path")
_JOB_NAME = "query"
_METRICS_INTERVAL = "200ms"
_DIGITS = 12
_RESTS = "spark.sql.streaming.noDataMicroBatches.enabled"
"""Whether there are batches without new rows, for what time ends: a setting of Spark."""

_LOCATION = "spark.sql.streaming.checkpointLocation"
"""A setting of Spark: a directory for the checkpoints of all queries that do not say where theirs are."""


def write_stream(dataframe: DataFrame) -> StreamWriter:
    """What `dataframe.writeStream` is in Spark, with the same methods; `start` runs the query on Snapline.

    Spark has parsed, resolved and checked the query; what does not run here is refused by `start`, before anything
    is started, with the part of the query and what to write instead.
    """
    if not isinstance(dataframe, DataFrame) or type(dataframe).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(f"write_stream({dataframe!r}): give a streaming DataFrame of a classic SparkSession")
    if not dataframe.isStreaming:
        raise ConfigurationError("write_stream(): this DataFrame does not stream; read it with spark.readStream")
    install_state_reader(_JOB_NAME)
    return StreamWriter(dataframe)


class StreamWriter:
    """Where the rows of a query go, and how. Methods have PySpark's names and return the writer.

    Options besides those of the format: `checkpointLocation` (storage of checkpoints, needed for all sinks but memory,
    console, noop, foreach and foreachBatch) and `parallelism` (subtasks of each operator, 1 by default).
    """

    def __init__(self, dataframe: DataFrame) -> None:
        self._dataframe = dataframe
        self._format: str | None = None
        self._options: dict[str, str] = {}
        self._mode = "append"
        self._name: str | None = None
        self._partitions: tuple[str, ...] = ()
        self._interval_ms: int | None = None
        self._ends_when_read = False
        self._function: Callable[..., Any] | Any = None

    def format(self, source: str) -> StreamWriter:
        self._format = source.lower() if source.lower() in _BUILT_IN else source
        return self

    def option(self, key: str, value: Any) -> StreamWriter:
        if value is None:
            self._options.pop(key.lower(), None)
        else:
            self._options[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
        return self

    def options(self, **options: Any) -> StreamWriter:
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> StreamWriter:  # noqa: N802, N803  # PySpark's names
        if outputMode.lower() not in _MODES:
            raise ConfigurationError(f"outputMode({outputMode!r}): use one of {', '.join(map(repr, _MODES))}")
        self._mode = outputMode.lower()
        return self

    def queryName(self, queryName: str) -> StreamWriter:  # noqa: N802, N803  # PySpark's names
        self._name = queryName
        return self

    def partitionBy(self, *columns: str | list[str]) -> StreamWriter:  # noqa: N802  # PySpark's name
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], list) else columns
        self._partitions = tuple(str(column) for column in given)
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,  # noqa: N803  # PySpark's name
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,  # noqa: N803  # PySpark's name
    ) -> StreamWriter:
        """`processingTime` and `continuous` are the time between checkpoints; the others read what is there and end."""
        given = [each for each in (processingTime, once, continuous, availableNow) if each is not None]
        if len(given) != 1 or given[0] is False:
            raise ConfigurationError("trigger(): give one of processingTime, continuous, availableNow and once")
        self._ends_when_read = bool(once or availableNow)
        interval = continuous if processingTime is None else processingTime
        self._interval_ms = None if interval is None else interval_ms(interval)
        return self

    def foreach(self, f: Any) -> StreamWriter:
        if not callable(f) and not callable(getattr(f, "process", None)):
            raise ConfigurationError(f"foreach({f!r}): give a function of a row, or an object with process(row)")
        self._format, self._function = "foreach", f
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> StreamWriter:  # noqa: N802  # PySpark's name
        self._format, self._function = "foreachBatch", func
        return self

    def toTable(  # noqa: N802  # PySpark's name
        self,
        tableName: str,  # noqa: N803  # PySpark's name
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803  # PySpark's name
        partitionBy: str | list[str] | None = None,  # noqa: N803  # PySpark's name
        queryName: str | None = None,  # noqa: N803  # PySpark's name
        **options: Any,
    ) -> StreamingQuery:
        """Append to a table of the catalog that consists of files; it is created if it is not there."""
        session = self._dataframe.sparkSession
        if partitionBy is not None:
            self.partitionBy(*([partitionBy] if isinstance(partitionBy, str) else partitionBy))
        if not session.catalog.tableExists(tableName):
            create_table(self._dataframe, tableName, format or self._format or "parquet", self._partitions)
        table = table_files(session, tableName)
        if table.format not in _APPEND_ONLY:
            raise ConfigurationError(
                f"toTable({tableName!r}): it is a table of {table.format}; use one of {', '.join(_APPEND_ONLY)}"
            )
        if self._partitions and self._partitions != table.partitions:
            raise ConfigurationError(
                f"toTable({tableName!r}): it is partitioned by {', '.join(table.partitions) or 'nothing'}, not by "
                f"{', '.join(self._partitions)}"
            )
        self._partitions = table.partitions
        return self.start(table.path, table.format, outputMode, None, queryName, **options)

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803  # PySpark's name
        partitionBy: str | list[str] | None = None,  # noqa: N803  # PySpark's name
        queryName: str | None = None,  # noqa: N803  # PySpark's name
        **options: Any,
    ) -> StreamingQuery:
        """Check the whole query, then start it."""
        self.options(**options)
        if path is not None:
            self.option("path", path)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        if queryName is not None:
            self.queryName(queryName)
        if partitionBy is not None:
            self.partitionBy(*([partitionBy] if isinstance(partitionBy, str) else partitionBy))
        return self._started()

    def _started(self) -> StreamingQuery:
        kind = self._format or "parquet"
        if kind in _APPEND_ONLY and self._mode != "append":
            raise ConfigurationError(f"{kind} takes rows only once: outputMode('append'), not {self._mode!r}")
        location = self._location(kind)
        if location is None and kind not in _NO_STORAGE:
            raise ConfigurationError(f"{kind} needs option('checkpointLocation', directory), as in Spark")
        job = self._job(kind, location)
        context = Context(job, Uids(), self._mode, steps=[])
        read = prepared(read_plan(self._dataframe), scalar_value)
        stream = output_stream(read, context)
        sink = self._sink(kind)
        if kind in _LINES:
            zone = self._dataframe.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
            stream = written_lines(stream, read.output, kind, self._columns(self._partitions), zone)
        stream.sink(sink, uid="sink")
        steps = self._steps(job, context, sink)
        plan = job.explain()
        handle = job.start(self._dataframe.sparkSession)
        return StreamingQuery(
            handle,
            plan,
            name=self._name,
            is_stored=location is not None,
            ends_when_read=self._ends_when_read,
            sink=kind,
            steps=steps,
            state_counts={node.name: getattr(node.operator, "state_counts", {}) for node in job.nodes},
        )

    def _steps(self, job: Job, context: Context, sink: Sink) -> QuerySteps | None:
        """What takes checkpoints in place of a clock, if a source says how much a step reads."""
        if not context.steps:
            return None
        job.checkpoints = Checkpoints(interval=None, storage=job.checkpoints.storage)
        job.asks_for_checkpoints = True
        others = sum(node.source is not None for node in job.nodes) > len(context.steps)
        interval_s = None if self._interval_ms is None else self._interval_ms / 1000
        has_rests = self._dataframe.sparkSession.conf.get(_RESTS, "true") == "true"
        goes_on = others or (context.has_timers and has_rests)
        return QuerySteps(context.steps, sink, interval_s=interval_s, has_rests=has_rests, goes_on=goes_on)

    def _job(self, kind: str, location: str | None) -> Job:
        """A job whose id is the same in each run from the same checkpoints."""
        name = self._name or _JOB_NAME
        job_id = f"{_JOB_NAME}-{_digest(location)}"
        # As fast as possible, 0 in Spark, is what rows are in any case; what sinks commit is not.
        interval = max(self._interval_ms or _DEFAULT_INTERVAL_MS, _LEAST_INTERVAL_MS)
        checkpoints = Checkpoints(interval=f"{interval}ms", storage=location or _temporary_directory())
        if has_ended(checkpoints, job_id):
            raise ConfigurationError(
                f"the query {name!r} with the checkpoints in {location} was stopped with a savepoint, and is over; "
                "give another checkpointLocation to run it again"
            )
        if kind == "memory" and self._mode != "complete" and has_checkpoints(checkpoints, job_id):
            raise ConfigurationError(
                f"a table in memory does not outlive its query, so the query {name!r} cannot go on from the "
                f"checkpoints in {location}, as in Spark; delete these or leave checkpointLocation out to start over, "
                "use outputMode('complete'), or write to files"
            )
        parallelism = self._number("parallelism", 1)
        execution = Execution(metrics_interval=_METRICS_INTERVAL)
        return Job(name, id=job_id, parallelism=parallelism, checkpoints=checkpoints, execution=execution)

    def _sink(self, kind: str) -> Sink:
        session = self._dataframe.sparkSession
        if kind == "memory":
            if self._name is None:
                raise ConfigurationError("the format memory needs queryName(...), the name of its table")
            empty = session.createDataFrame([], self._dataframe.schema)
            return sinks.ForeachDataFrame(MemoryTable(session, self._name, empty, is_complete=self._mode == "complete"))
        if kind == "console":
            rows = self._number("numRows", 20)
            return sinks.ForeachDataFrame(ConsoleTable(rows, truncates=self._options.get("truncate") != "false"))
        if kind == "noop":
            return NoRows()
        if kind == "foreachBatch":
            return sinks.ForeachDataFrame(self._function)
        if kind == "foreach":
            return sinks.Foreach(RowCalls(self._function, self._dataframe.schema))
        if kind in _FILES:
            self._check_options(kind)
            path, partitions = self._path(kind), self._columns(self._partitions)
            if kind not in _LINES:
                return sinks.Files(path, format=kind, partition_by=partitions)
            names = [name for name in self._dataframe.columns if name not in partitions]
            first = csv_header(names) if self._options.get("header") == "true" else None
            return sinks.Files(path, format="text", partition_by=partitions, suffix=kind, first_line=first)
        if kind == "delta":
            return sinks.Delta(self._path(kind), partition_by=self._columns(self._partitions) or None)
        if kind == "kafka":
            return kafka_sink(self._options, self._dataframe.columns)
        source = python_data_source(session, kind)
        if source is not None:
            return sinks.DataSource(source, self._options, overwrite=self._mode == "complete")
        raise ConfigurationError(
            f"format({kind!r}): use memory, console, noop, foreach, foreachBatch, {', '.join(_FILES)}, delta, kafka, "
            "or a data source in Python that is registered with spark.dataSource.register"
        )

    def _location(self, kind: str) -> str | None:
        """Where checkpoints are: the option, or as in Spark a directory in that of the session's setting."""
        location = self._options.get("checkpointlocation")
        base = self._dataframe.sparkSession.conf.get(_LOCATION, None)
        if location is not None or not base or kind in _FOR_LOOKING:
            return location
        return f"{base.rstrip('/')}/{self._name or uuid.uuid4()}"

    def _number(self, key: str, default: int) -> int:
        text = self._options.get(key.lower(), str(default))
        if not text.isdecimal() or int(text) == 0:
            raise ConfigurationError(f"option({key!r}, {text!r}): give a whole number of 1 or more")
        return int(text)

    def _columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns as the query writes their names: Spark does not look at the case."""
        known = {name.lower(): name for name in self._dataframe.columns}
        return tuple(known.get(name.lower(), name) for name in names)

    def _check_options(self, kind: str) -> None:
        """Raises `ConfigurationError` for options that would change what is in files, and do nothing here."""
        known = {*_OPTIONS, *(("header",) if kind == "csv" else ())}
        unknown = [key for key in self._options if key not in known]
        if unknown:
            raise ConfigurationError(
                f"option({unknown[0]!r}, {self._options[unknown[0]]!r}) of the format {kind} has no counterpart here; "
                "leave it out, or write with foreachBatch: lambda rows, n: rows.write.mode('append')..."
            )

    def _path(self, kind: str) -> str:
        if "path" not in self._options:
            raise ConfigurationError(f"the format {kind} needs a path: start(path) or option('path', path)")
        return self._options["path"]


def _digest(location: str | None) -> str:
    """What tells queries apart: where their checkpoints are; otherwise every run is another."""
    if location is None:
        return uuid.uuid4().hex[:_DIGITS]
    place = location.rstrip("/") if "://" in location else os.path.abspath(location)
    return hashlib.sha256(place.encode()).hexdigest()[:_DIGITS]


def _temporary_directory() -> str:
    """A directory that is there until the program ends, for queries that nobody wants to go on with later."""
    directory = tempfile.mkdtemp(prefix="snapline-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def kafka_sink(options: Mapping[str, str], columns: Sequence[str]) -> Sink:
    """The sink for rows with these columns, from the options that Spark's has."""
    own = {key.removeprefix("kafka."): value for key, value in options.items() if key.startswith("kafka.")}
    if "bootstrap.servers" not in own or "topic" not in options:
        raise ConfigurationError(
            "the format kafka needs option('kafka.bootstrap.servers', ...) and option('topic', ...)"
        )
    unknown = [name for name in columns if name not in ("key", "value", "partition")]
    if "value" not in columns or unknown:
        raise ConfigurationError(
            f"the format kafka writes the columns key, value and partition, not {', '.join(unknown) or 'key alone'}; "
            "select these, with to_json(struct(...)) AS value"
        )
    from snapline.connectors import formats

    return sinks.Kafka(
        own.pop("bootstrap.servers"),
        options["topic"],
        format=formats.Raw(),
        key="key" if "key" in columns else None,
        partition="partition" if "partition" in columns else None,
        value_columns=["value"],
        config=own or None,
    )

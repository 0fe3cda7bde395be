"""Sinks of which a part runs on the driver, with its SparkSession."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.api.job import Job
from snapline.connectors.data_source.stream_sink import DataSource
from snapline.connectors.foreach_dataframe import ForeachDataFrame
from snapline.contracts.sink import Sink
from snapline.errors import ConfigurationError
from snapline.operators.sink_operator import SinkOperator
from snapline.spark.capacity import task_slots
from snapline.spark.dataframe_types import readable_schema
from snapline.spark.dataframes import staged_rows_directory


def attach_session(job: Job, spark: SparkSession) -> None:
    """Give sinks that need them the session and a directory beside the checkpoints; before the job is packed."""
    sinks: list[Sink] = [node.operator.sink for node in job.nodes if isinstance(node.operator, SinkOperator)]
    is_needed = any(isinstance(sink, ForeachDataFrame | DataSource) for sink in sinks)
    directory = staged_rows_directory(job.checkpoints.storage) if is_needed else None
    for sink in sinks:
        if isinstance(sink, ForeachDataFrame):
            assert sink.schema is not None, "a sink of a job was checked"
            schema = readable_schema(sink.schema, "ForeachDataFrame")
            sink.use_session(lambda paths, kind: _frame(spark, paths, kind), schema, directory)
        elif isinstance(sink, DataSource):
            sink.use_directory(directory)


def check_free_slots(job: Job, spark: SparkSession, slots: int) -> None:
    """Raises `ConfigurationError` if queries of a function on the driver would wait for ever for the job to end."""
    needs_slot = any(
        isinstance(node.operator, SinkOperator) and isinstance(node.operator.sink, ForeachDataFrame)
        for node in job.nodes
    )
    if needs_slot and task_slots(spark.sparkContext) <= slots:
        raise ConfigurationError(
            f"the job takes all {slots} task slots, so queries of the function of ForeachDataFrame could never run; "
            "give Spark more cores, or the job less parallelism"
        )


def _frame(spark: SparkSession, paths: Sequence[str], schema: pa.Schema) -> Any:
    files = [f"file://{path}" for path in paths]
    return spark.read.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True)).parquet(*files)

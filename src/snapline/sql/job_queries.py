"""Queries as parts of a job: SQL over its streams, and streaming DataFrames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import from_arrow_schema

from snapline.api.job import Job
from snapline.api.stream import Stream
from snapline.errors import ConfigurationError
from snapline.operators.changes.changes import is_changing
from snapline.spark.dataframe_types import readable_schema
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.lowering.lowered_query import lowered
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.relation_streams import VIEW_FORMAT
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared


class ViewSource(DataSource):
    """Stands for a stream of a job in Spark's plans; Spark never reads it."""

    @classmethod
    def name(cls) -> str:
        return VIEW_FORMAT

    def schema(self) -> str:
        return self.options["schema"]

    def streamReader(self, schema: Any) -> Any:  # noqa: N802  # PySpark's name
        raise ConfigurationError("a view of a job is read by the job; use job.sql(), not spark.sql().writeStream")


def sql_stream(job: Job, query: str, uid: str, spark: SparkSession | None) -> Stream:
    """The result of a query over the views of a job."""
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ConfigurationError("sql(): there is no active SparkSession; create one, or give spark=")
    session.dataSource.register(ViewSource)
    for name, stream in job._views.items():
        view_frame(session, name, stream).createOrReplaceTempView(name)
    return dataframe_stream(job, session.sql(query), uid)


def view_frame(session: SparkSession, name: str, stream: Stream) -> DataFrame:
    """A streaming DataFrame with the columns of a stream, and its watermark if it has one."""
    if is_changing(stream.schema):
        raise ConfigurationError(f"view {name!r}: rows of this stream change later; put the next step into one query")
    struct = from_arrow_schema(spark_schema(stream.schema, name), prefer_timestamp_ntz=True)
    frame = session.readStream.format(VIEW_FORMAT).schema(struct).option("view", name).load()
    times = sorted(set(stream._event_time or ()) & set(stream.schema.names))
    zoned = [each for each in times if pa.types.is_timestamp(stream.schema.field(each).type)]
    return frame.withWatermark(zoned[0], "0 seconds") if len(zoned) == 1 else frame


def spark_schema(schema: pa.Schema, name: str) -> pa.Schema:
    """The schema with types that Spark has; a time without a zone is one in UTC, as watermarks need it."""
    readable = readable_schema(schema, f"view {name!r}")
    kinds = [pa.timestamp("us", "UTC") if pa.types.is_timestamp(each.type) else each.type for each in readable]
    return pa.schema([each.with_type(kind) for each, kind in zip(readable, kinds, strict=True)])


def dataframe_stream(job: Job, dataframe: DataFrame, uid: str) -> Stream:
    """The rows of a streaming DataFrame as a stream of a job."""
    if not dataframe.isStreaming:
        raise ConfigurationError("this query reads no stream; use job.from_dataframe() for a batch DataFrame")
    context = Context(job, Uids(uid), None, job._views)
    return lowered(prepared(read_plan(dataframe), scalar_value), context).stream

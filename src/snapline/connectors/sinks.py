"""The built-in sinks."""

from snapline.connectors.collect import Collect
from snapline.connectors.data_source.stream_sink import DataSource
from snapline.connectors.database.database_sink import Database
from snapline.connectors.delta.delta_sink import Delta
from snapline.connectors.files.file_sink import Files, read_files
from snapline.connectors.foreach import Foreach, ForeachBatch, Print
from snapline.connectors.foreach_dataframe import ForeachDataFrame
from snapline.connectors.kafka.kafka_sink import Kafka
from snapline.connectors.postgres.postgres_sink import Postgres

__all__ = [
    "Collect",
    "DataSource",
    "Database",
    "Delta",
    "Files",
    "Foreach",
    "ForeachBatch",
    "ForeachDataFrame",
    "Kafka",
    "Postgres",
    "Print",
    "read_files",
]

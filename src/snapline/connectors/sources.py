"""The built-in sources."""

from snapline.connectors.data_source.stream_source import DataSource
from snapline.connectors.delta.delta_source import Delta
from snapline.connectors.files.file_source import Files
from snapline.connectors.generate import Generate
from snapline.connectors.iterator import Iterator
from snapline.connectors.kafka.kafka_source import Kafka
from snapline.connectors.postgres.postgres_source import Postgres
from snapline.connectors.rate import Rate, Sequence
from snapline.connectors.socket_lines import Socket

__all__ = ["DataSource", "Delta", "Files", "Generate", "Iterator", "Kafka", "Postgres", "Rate", "Sequence", "Socket"]

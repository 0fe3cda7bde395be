"""The built-in sources."""

from snapline.connectors.data_source.stream_source import DataSource
from snapline.connectors.files.file_source import Files
from snapline.connectors.generate import Generate
from snapline.connectors.iterator import Iterator
from snapline.connectors.kafka.kafka_source import Kafka
from snapline.connectors.rate import Rate, Sequence
from snapline.connectors.socket_lines import Socket

__all__ = ["DataSource", "Files", "Generate", "Iterator", "Kafka", "Rate", "Sequence", "Socket"]

"""The built-in sources."""

from snapline.connectors.files.file_source import Files
from snapline.connectors.generate import Generate
from snapline.connectors.iterator import Iterator
from snapline.connectors.rate import Rate, Sequence
from snapline.connectors.socket_lines import Socket

__all__ = ["Files", "Generate", "Iterator", "Rate", "Sequence", "Socket"]

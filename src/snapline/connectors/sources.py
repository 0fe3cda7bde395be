"""The sources that come with Snapline."""

from snapline.connectors.file_source import Files
from snapline.connectors.generating import Generate
from snapline.connectors.iterating import Iterator
from snapline.connectors.rate import Rate, Sequence
from snapline.connectors.sockets import Socket

__all__ = ["Files", "Generate", "Iterator", "Rate", "Sequence", "Socket"]

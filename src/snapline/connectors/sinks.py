"""The sinks that come with Snapline."""

from snapline.connectors.files import Files, read_files

__all__ = ["Files", "read_files"]

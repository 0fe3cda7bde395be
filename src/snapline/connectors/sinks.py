"""The built-in sinks."""

from snapline.connectors.collect import Collect
from snapline.connectors.files.file_sink import Files, read_files
from snapline.connectors.foreach import Foreach, ForeachBatch, Print

__all__ = ["Collect", "Files", "Foreach", "ForeachBatch", "Print", "read_files"]

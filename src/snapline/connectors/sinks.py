"""The sinks that come with Snapline."""

from snapline.connectors.calling import Foreach, ForeachBatch, Print
from snapline.connectors.collecting import Collect
from snapline.connectors.files import Files, read_files

__all__ = ["Collect", "Files", "Foreach", "ForeachBatch", "Print", "read_files"]

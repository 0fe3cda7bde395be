"""`write_stream`: a streaming DataFrame of Spark runs on Snapline."""

from __future__ import annotations

from typing import Any

from snapline.api.late_imports import sql_side


def write_stream(dataframe: Any) -> Any:
    """What `dataframe.writeStream` is in Spark, with the same methods; `start` runs the query on Snapline.

    `format`, `option`, `options`, `outputMode`, `partitionBy`, `queryName`, `trigger`, `foreach`, `foreachBatch`,
    `toTable` and `start` mean what they mean in Spark. `checkpointLocation` is where checkpoints are stored,
    `trigger(processingTime=...)` the time between them, `trigger(availableNow=True)` reads what is there and ends.
    `start` returns a query with the methods of PySpark's `StreamingQuery`, and the job's `handle`.
    """
    return sql_side("write_stream").write_stream(dataframe)

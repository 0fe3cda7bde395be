"""The same queries from their SQL texts: Spark reads `spark_sql.ANSWERS` over streaming views, a job runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.nexmark.generator import SCHEMAS, Kind, side_input
from benchmarks.nexmark.spark_sql import ANSWERS

import snapline as sl
from snapline.operators.changes.changes import CHANGE


class SqlQueries:
    """Builds queries from their SQL texts, with a session of Spark of its own in UTC."""

    def __init__(self, spark: Any) -> None:
        self._session = spark.newSession()
        self._session.conf.set("spark.sql.session.timeZone", "UTC")
        self._session.createDataFrame(side_input()).createOrReplaceTempView("side_input")

    def stream(self, query: str, job: sl.Job, nexmark: Any) -> sl.Stream:
        """The answers of a query as changes; `nexmark` has the sources `persons`, `auctions` and `bids` of `job`."""
        text = ANSWERS[query]
        sources: dict[Kind, Callable[..., sl.Stream]] = {
            "person": nexmark.persons,
            "auction": nexmark.auctions,
            "bid": nexmark.bids,
        }
        for kind, source in sources.items():
            if _occurs(kind, text, before=r"(?:FROM|JOIN)\s+"):
                job.view(kind, source(*columns_read(text, SCHEMAS[kind].names)))
        return job.sql(text, spark=self._session)


def columns_read(text: str, names: Sequence[str]) -> list[str]:
    """The columns that a text names: sources generate no others. Every text names what it selects."""
    return [name for name in names if _occurs(name, text)]


def _occurs(name: str, text: str, before: str = "") -> bool:
    return re.search(rf"{before}\b{name}\b", text) is not None


def folded(rows: pa.Table) -> pa.Table:
    """The rows that changes leave: every row as often as it was inserted less as often as it was taken back.

    Raises `ValueError` if a row was taken back more often than it was there.
    """
    if CHANGE not in rows.column_names:
        return rows
    kinds = rows.column(CHANGE).to_numpy()
    values = rows.drop_columns([CHANGE])
    names = values.column_names
    weighed = values.append_column("weight", pa.array(1 - 2 * (kinds & 1).astype(np.int64)))
    sums = weighed.group_by(names, use_threads=False).aggregate([("weight", "sum")])
    times = sums.column("weight_sum").to_numpy()
    if (times < 0).any():
        raise ValueError(f"{int(np.count_nonzero(times < 0))} rows were taken back that were never there")
    return sums.select(names).take(pa.array(np.repeat(np.arange(len(times)), times)))

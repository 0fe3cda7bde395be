"""The answers: the same queries in Spark SQL, run once all events are there.

The tables are `person`, `auction` and `bid`, and for q13 `side_input`. Where a query of Nexmark keeps updating its
results, the answer here is the final result; for q12, whose windows follow the wall clock, it is the sum of its
windows.
"""

# ruff: noqa: S608  # nothing in these queries comes from outside

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.nexmark import generator

_ROWS_AT_ONCE = 100_000
_FEW_EVENTS = 200_000

_PRICES = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
_BIDS_BY_RANK = ", ".join(f"count(*) FILTER (WHERE {which}) AS {rank}_bids" for rank, which in _PRICES.items())
_DISTINCT_BY_RANK = ", ".join(
    f"count(DISTINCT {column}) AS total_{name}, "
    + ", ".join(f"count(DISTINCT {column}) FILTER (WHERE {which}) AS {rank}_{name}" for rank, which in _PRICES.items())
    for column, name in (("bidder", "bidders"), ("auction", "auctions"))
)
_CHANNEL_ID = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"
_WHILE_OPEN = "auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"

ANSWERS = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908D * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
        SELECT category, avg(final) AS average
        FROM (SELECT A.id, A.category, max(B.price) AS final FROM {_WHILE_OPEN} GROUP BY A.id, A.category)
        GROUP BY category""",
    "q5": """
        SELECT auction, num, starttime, endtime
        FROM (SELECT *, max(num) OVER (PARTITION BY starttime, endtime) AS most
              FROM (SELECT auction, count(*) AS num, window.start AS starttime, window.end AS endtime
                    FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')))
        WHERE num = most""",
    "q7": """
        SELECT auction, price, bidder, dateTime, extra
        FROM (SELECT *, max(price) OVER (PARTITION BY window) AS highest
              FROM (SELECT *, window(dateTime, '10 seconds') AS window FROM bid))
        WHERE price = highest""",
    "q8": """
        SELECT DISTINCT P.id, P.name, P.starttime
        FROM (SELECT id, name, window(dateTime, '10 seconds').start AS starttime FROM person) P
        JOIN (SELECT seller, window(dateTime, '10 seconds').start AS starttime FROM auction) A
        ON P.id = A.seller AND P.starttime = A.starttime""",
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, dateTime, expires, seller, category, extra,
               bidder, price, bid_dateTime, bid_extra
        FROM (SELECT A.*, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
                     row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime) AS place
              FROM {_WHILE_OPEN})
        WHERE place = 1""",
    "q11": """
        SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
        FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    "q12": "SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
    "q13": """
        SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
        FROM bid B JOIN side_input S ON B.auction % 10000 = S.key""",
    "q14": """
        SELECT auction, bidder, 0.908D * price AS price,
               CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS bidTimeType,
               dateTime, extra, CAST(length(extra) - length(replace(extra, 'c', '')) AS BIGINT) AS c_counts
        FROM bid WHERE 0.908D * price > 1000000 AND 0.908D * price < 50000000""",
    "q15": f"""
        SELECT CAST(dateTime AS DATE) AS day, count(*) AS total_bids, {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
        FROM bid GROUP BY CAST(dateTime AS DATE)""",
    "q16": f"""
        SELECT channel, CAST(dateTime AS DATE) AS day, date_format(max(dateTime), 'HH:mm') AS minute,
               count(*) AS total_bids, {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
        FROM bid GROUP BY channel, CAST(dateTime AS DATE)""",
    "q17": f"""
        SELECT auction, CAST(dateTime AS DATE) AS day, count(*) AS total_bids, {_BIDS_BY_RANK},
               min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
        FROM bid GROUP BY auction, CAST(dateTime AS DATE)""",
    "q18": """
        SELECT auction, bidder, price, channel, url, dateTime, extra
        FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, price DESC) AS place
              FROM bid)
        WHERE place = 1""",
    "q19": """
        SELECT auction, bidder, price, channel, url, dateTime, extra, place AS rank
        FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime) AS place FROM bid)
        WHERE place <= 10""",
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime, B.extra,
               A.itemName, A.description, A.initialBid, A.reserve, A.dateTime AS auction_dateTime, A.expires, A.seller,
               A.category, A.extra AS auction_extra
        FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10""",
    "q21": f"""
        SELECT auction, bidder, price, channel,
               CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id
        FROM bid WHERE {_CHANNEL_ID} <> '' OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel,
               split(url, '/')[3] AS dir1, split(url, '/')[4] AS dir2, split(url, '/')[5] AS dir3
        FROM bid""",
}


class Oracle:
    """Queries Spark, in a session of its own, and keeps the answers: Parquet files per number of events.

    `spark` returns a session; it is called on first need.
    """

    def __init__(self, spark: Callable[[], Any], directory: Path, events: int, events_per_second: int) -> None:
        self._get_spark = spark
        self._directory = directory / f"{events}-events-at-{events_per_second}"
        self._events = events
        self._events_per_second = events_per_second

    def answer(self, query: str) -> pa.Table:
        """Returns the answer to a query, computed now or earlier."""
        path = self._directory / query
        if not path.exists():
            new = path.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            self._spark.sql(ANSWERS[query]).write.parquet(str(new))
            new.rename(path)
        return pq.read_table(path)

    @cached_property
    def _spark(self) -> Any:
        """Returns a session with the tables; creates missing files."""
        session = self._get_spark().newSession()
        session.conf.set("spark.sql.shuffle.partitions", "1" if self._events < _FEW_EVENTS else "4")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        tables = self._directory / "tables"
        tables.mkdir(parents=True, exist_ok=True)
        for kind in generator.SCHEMAS:
            path = tables / f"{kind}.parquet"
            if not path.exists():
                new = path.with_suffix(".new")
                self._write(kind, new)
                new.rename(path)
            session.read.parquet(str(path)).createOrReplaceTempView(kind)
        path = tables / "side_input.parquet"
        pq.write_table(generator.side_input(), path)
        session.read.parquet(str(path)).createOrReplaceTempView("side_input")
        return session

    def _write(self, kind: generator.Kind, path: Path) -> None:
        rows = generator.row_count(kind, self._events)
        with pq.ParquetWriter(path, generator.SCHEMAS[kind]) as writer:
            for start in range(0, rows, _ROWS_AT_ONCE):
                count = min(_ROWS_AT_ONCE, rows - start)
                writer.write_batch(generator.batch(kind, start, count, None, self._events_per_second))

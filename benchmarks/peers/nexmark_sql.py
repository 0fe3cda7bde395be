"""The queries of Nexmark in Flink's SQL, over views `person`, `auction` and `bid`."""

from __future__ import annotations

_TUMBLE = "TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_SESSION = "TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
_WINDOW = "window_start, window_end"

_COUNTS = f"SELECT auction, COUNT(*) AS num, {_WINDOW} FROM {_HOP} GROUP BY auction, {_WINDOW}"  # noqa: S608

_PRICES = {"rank1": "price < 10000", "rank2": "price >= 10000 AND price < 1000000", "rank3": "price >= 1000000"}
_BIDS_BY_RANK = ", ".join(f"COUNT(*) FILTER (WHERE {which}) AS {rank}_bids" for rank, which in _PRICES.items())
_DISTINCT_BY_RANK = ", ".join(
    f"COUNT(DISTINCT {column}) AS total_{name}, "
    + ", ".join(f"COUNT(DISTINCT {column}) FILTER (WHERE {which}) AS {rank}_{name}" for rank, which in _PRICES.items())
    for column, name in (("bidder", "bidders"), ("auction", "auctions"))
)
_WHILE_OPEN = "auction AS A, bid AS B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_DAY = "CAST(`dateTime` AS DATE)"

SQL = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q4": f"""
        SELECT category, AVG(CAST(final AS DOUBLE)) AS average
        FROM (SELECT A.id, A.category, MAX(B.price) AS final FROM {_WHILE_OPEN} GROUP BY A.id, A.category)
        GROUP BY category
    """,  # noqa: S608
    "q9": f"""
        SELECT id, itemName, description, initialBid, reserve, `dateTime`, expires, seller, category, extra,
               bidder, price, bid_dateTime, bid_extra
        FROM (SELECT A.*, B.bidder, B.price, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
                     ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime`) AS place
              FROM {_WHILE_OPEN})
        WHERE place <= 1
    """,  # noqa: S608
    "q12": "SELECT bidder, COUNT(*) AS bid_count FROM bid GROUP BY bidder",
    "q14": """
        SELECT auction, bidder, 0.908e0 * price AS price,
               CASE WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
                    WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime'
                    ELSE 'otherTime' END AS bidTimeType,
               `dateTime`, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908e0 * price > 1000000 AND 0.908e0 * price < 50000000
    """,
    "q15": f"""
        SELECT {_DAY} AS `day`, COUNT(*) AS total_bids, {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
        FROM bid GROUP BY {_DAY}
    """,  # noqa: S608
    "q16": f"""
        SELECT channel, {_DAY} AS `day`, DATE_FORMAT(MAX(`dateTime`), 'HH:mm') AS `minute`, COUNT(*) AS total_bids,
               {_BIDS_BY_RANK}, {_DISTINCT_BY_RANK}
        FROM bid GROUP BY channel, {_DAY}
    """,  # noqa: S608
    "q17": f"""
        SELECT auction, {_DAY} AS `day`, COUNT(*) AS total_bids, {_BIDS_BY_RANK}, MIN(price) AS min_price,
               MAX(price) AS max_price, AVG(CAST(price AS DOUBLE)) AS avg_price, SUM(price) AS sum_price
        FROM bid GROUP BY auction, {_DAY}
    """,  # noqa: S608
    "q19": """
        SELECT auction, bidder, price, channel, url, `dateTime`, extra, place AS `rank`
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, `dateTime`) AS place FROM bid)
        WHERE place <= 10
    """,
    "q20": """
        SELECT B.auction, B.bidder, B.price, B.channel, B.url, B.`dateTime`, B.extra,
               A.itemName, A.description, A.initialBid, A.reserve, A.`dateTime` AS auction_dateTime, A.expires,
               A.seller, A.category, A.extra AS auction_extra
        FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10
    """,
    "q21": f"""
        SELECT auction, bidder, price, channel,
               CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id
        FROM bid WHERE {_CHANNEL_ID} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
    """,  # noqa: S608
    "q22": """
        SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2,
               SPLIT_INDEX(url, '/', 5) AS dir3
        FROM bid
    """,
    "q1": "SELECT auction, bidder, 0.908e0 * price AS price, `dateTime`, extra FROM bid",
    "q3": """
        SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA')
    """,
    "q5": f"""
        SELECT C.auction, C.num, C.window_start AS starttime, C.window_end AS endtime FROM ({_COUNTS}) AS C
        JOIN (SELECT MAX(num) AS most, {_WINDOW} FROM ({_COUNTS}) GROUP BY {_WINDOW}) AS M
        ON C.window_start = M.window_start AND C.window_end = M.window_end AND C.num = M.most
    """,  # noqa: S608
    "q7": f"""
        SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM {_TUMBLE.format(table="bid")} AS B
        JOIN (SELECT MAX(price) AS most, {_WINDOW} FROM {_TUMBLE.format(table="bid")} GROUP BY {_WINDOW}) AS M
        ON B.window_start = M.window_start AND B.window_end = M.window_end AND B.price = M.most
    """,  # noqa: S608
    "q8": f"""
        SELECT P.id, P.name, P.window_start AS starttime
        FROM (SELECT id, name, {_WINDOW} FROM {_TUMBLE.format(table="person")} GROUP BY id, name, {_WINDOW}) AS P
        JOIN (SELECT seller, {_WINDOW} FROM {_TUMBLE.format(table="auction")} GROUP BY seller, {_WINDOW}) AS A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end
    """,  # noqa: S608
    "q11": f"""
        SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
        FROM {_SESSION} GROUP BY bidder, {_WINDOW}
    """,  # noqa: S608
    "q18": """
        SELECT auction, bidder, price, channel, url, `dateTime`, extra
        FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid)
        WHERE place <= 1
    """,
}

KINDS = {
    **dict.fromkeys(("q3", "q8"), ("auction", "person")),
    **dict.fromkeys(("q4", "q9", "q20"), ("auction", "bid")),
}
"""The views a query reads, if not only bids."""

_RANKS = ("rank1", "rank2", "rank3")
_COUNTED = (
    "day",
    "total_bids",
    *(f"{rank}_bids" for rank in _RANKS),
    *(f"{rank}_{name}" for name in ("bidders", "auctions") for rank in ("total", *_RANKS)),
)

ANSWER = {
    "q0": ("auction", "bidder", "price", "dateTime", "extra"),
    "q2": ("auction", "price"),
    "q4": ("category", "average"),
    "q9": ("id", "itemName", "reserve", "expires", "seller", "bidder", "price", "bid_dateTime"),
    "q12": ("bidder", "bid_count"),
    "q13": ("auction", "bidder", "price", "dateTime", "value"),
    "q14": ("auction", "bidder", "price", "bidTimeType", "dateTime", "extra", "c_counts"),
    "q15": _COUNTED,
    "q16": ("channel", "minute", *_COUNTED),
    "q17": ("auction", "day", "total_bids", "rank1_bids", "min_price", "max_price", "avg_price", "sum_price"),
    "q19": ("auction", "bidder", "price", "url", "dateTime", "rank"),
    "q20": ("auction", "bidder", "price", "dateTime", "itemName", "reserve", "auction_dateTime", "expires", "category"),
    "q21": ("auction", "bidder", "price", "channel", "channel_id"),
    "q22": ("auction", "bidder", "price", "channel", "dir1", "dir2", "dir3"),
    "q1": ("auction", "bidder", "price", "dateTime", "extra"),
    "q3": ("name", "city", "state", "id"),
    "q5": ("auction", "num", "starttime", "endtime"),
    "q7": ("auction", "price", "bidder", "dateTime", "extra"),
    "q8": ("id", "name", "starttime"),
    "q11": ("bidder", "bid_count", "starttime", "endtime"),
    "q18": ("auction", "bidder", "dateTime"),
}
"""What is compared. Any of several last bids in the same millisecond is right, so q18 compares only the time."""

TIMES = frozenset({"dateTime", "starttime", "endtime", "expires", "bid_dateTime", "auction_dateTime"})

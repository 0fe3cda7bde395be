"""The queries of Nexmark in Flink's SQL, over views `person`, `auction` and `bid`."""

from __future__ import annotations

_TUMBLE = "TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_SESSION = "TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))"
_WINDOW = "window_start, window_end"

_COUNTS = f"SELECT auction, COUNT(*) AS num, {_WINDOW} FROM {_HOP} GROUP BY auction, {_WINDOW}"  # noqa: S608

SQL = {
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

KINDS = {"q3": ("auction", "person"), "q8": ("auction", "person")}
"""The views a query reads, if not only bids."""

ANSWER = {
    "q1": ("auction", "bidder", "price", "dateTime", "extra"),
    "q3": ("name", "city", "state", "id"),
    "q5": ("auction", "num", "starttime", "endtime"),
    "q7": ("auction", "price", "bidder", "dateTime", "extra"),
    "q8": ("id", "name", "starttime"),
    "q11": ("bidder", "bid_count", "starttime", "endtime"),
    "q18": ("auction", "bidder", "dateTime"),
}
"""What is compared. Any of several last bids in the same millisecond is right, so q18 compares only the time."""

TIMES = frozenset({"dateTime", "starttime", "endtime"})

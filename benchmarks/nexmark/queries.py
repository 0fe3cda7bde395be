"""The queries of Nexmark, each a function from the three sources to the stream of its answers.

Read them as examples: they are written as a user would write them. `QUERIES` says what each of them asks, and how to
read its answers: all rows are final; or a row replaces the last one with the same key; or the rows of a key are parts
of a sum. q6 is left out because its answer depends on the order in which rows arrive, and q10 because it is about
writing files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.nexmark.comparing import Reduction
from benchmarks.nexmark.generator import SCHEMAS, side_input
from benchmarks.nexmark.sources import Sources

import snapline as sl

EUROS = 0.908
MILLISECOND = pa.scalar(timedelta(milliseconds=1), pa.duration("ms"))

# Row by row.


def q0(nexmark: Sources) -> sl.Stream:
    """Pass through: nothing is done to the bids."""
    return nexmark.bids("auction", "bidder", "price", "dateTime", "extra")


def q1(nexmark: Sources) -> sl.Stream:
    """Currency conversion: prices in another currency."""
    bids = nexmark.bids("auction", "bidder", "price", "dateTime", "extra")
    return bids.with_columns(price=pc.field("price") * EUROS)


def q2(nexmark: Sources) -> sl.Stream:
    """Selection: the bids for some of the auctions."""
    return nexmark.bids("auction", "price").filter(remainder("auction", 123) == 0)


def q13(nexmark: Sources) -> sl.Stream:
    """Bounded side input: bids with a text for their auction, from a table that does not change."""
    bids = nexmark.bids("auction", "bidder", "price", "dateTime")
    found = bids.with_columns(key=remainder("auction", 10_000)).lookup(side_input(), on="key")
    return found.select("auction", "bidder", "price", "dateTime", "value")


def q14(nexmark: Sources) -> sl.Stream:
    """Calculation: bids of some size, with the time of day, and the result of a custom function."""
    price, hour = pc.field("price") * EUROS, pc.hour(pc.field("dateTime"))
    is_day, is_night = (hour >= 8) & (hour <= 18), (hour <= 6) | (hour >= 20)
    bids = nexmark.bids("auction", "bidder", "price", "dateTime", "extra")
    return (
        bids.filter((price > 1_000_000) & (price < 50_000_000))
        .with_columns(
            price=price,
            bidTimeType=pc.if_else(is_day, "dayTime", pc.if_else(is_night, "nightTime", "otherTime")),
        )
        .map_batches(with_count_of_c)
    )


def with_count_of_c(bids: pa.RecordBatch) -> pa.RecordBatch:
    """Counts the letter c in `extra`: a function of whole batches."""
    counts = pc.count_substring(bids.column("extra"), "c").cast(pa.int64())
    return bids.append_column("c_counts", counts)


# Joins.


def q3(nexmark: Sources) -> sl.Stream:
    """Local item suggestion: who sells in category 10 and lives in one of three states."""
    persons = nexmark.persons("id", "name", "city", "state").filter(pc.field("state").isin(["OR", "ID", "CA"]))
    auctions = nexmark.auctions("id", "seller", "category").filter(pc.field("category") == 10)
    sellers = persons.rename({"id": "person"}).key_by("person")
    return auctions.key_by("seller").join(sellers, uid="sellers").select("name", "city", "state", "id")


def q20(nexmark: Sources) -> sl.Stream:
    """Expand bids: with the columns of their auctions, for the auctions of one category."""
    auctions = nexmark.auctions().filter(pc.field("category") == 10)
    named = auctions.rename({"dateTime": "auction_dateTime", "extra": "auction_extra"})
    return nexmark.bids().key_by("auction").join(named.key_by("id"), uid="joined")


def q9(nexmark: Sources) -> sl.Stream:
    """Winning bids: the highest bid for each auction, once the auction is over."""
    columns = [*SCHEMAS["auction"].names, "bidder", "price", "bid_dateTime", "bid_extra"]
    bids = nexmark.bids("auction", "bidder", "price", "dateTime", "extra")
    best = (
        bids_in_time(nexmark, nexmark.auctions(), bids)
        .with_columns(row=pc.make_struct(*map(pc.field, columns), field_names=columns))
        .key_by("id")
        .window(sl.GivenWindow("dateTime", "closes"))
        .aggregate(best=sl.top_n("row", 1, by="price"), uid="best")
    )
    row = pc.list_element(pc.field("best"), 0)
    return best.select(**{column: pc.struct_field(row, column) for column in columns})


def q4(nexmark: Sources) -> sl.Stream:
    """Average price for a category: of the highest bids for its auctions, each counted once the auction is over."""
    auctions = nexmark.auctions("id", "dateTime", "expires", "category")
    return (
        bids_in_time(nexmark, auctions, nexmark.bids("auction", "price", "dateTime"))
        .key_by("id", "category")
        .window(sl.GivenWindow("dateTime", "closes"))
        .aggregate(final=sl.max("price"), uid="finals")
        .key_by("category")
        .aggregate(average=sl.mean("final"), uid="averages")
    )


def bids_in_time(nexmark: Sources, auctions: sl.Stream, bids: sl.Stream) -> sl.Stream:
    """Auctions with each of the bids that came while they were open, and when all of these have arrived: `closes`."""
    bids = bids.rename({"dateTime": "bid_dateTime"} | ({"extra": "bid_extra"} if "extra" in bids.schema.names else {}))
    return (
        auctions.key_by("id")
        .interval_join(
            bids.key_by("auction"),
            lower="0ms",
            upper=nexmark.longest_auction,
            on=("dateTime", "bid_dateTime"),
            uid="bids-in-time",
        )
        .filter(pc.field("bid_dateTime") <= pc.field("expires"))
        .with_columns(closes=pc.field("expires") + MILLISECOND)
    )


# Windows.


def q5(nexmark: Sources) -> sl.Stream:
    """Hot items: every two seconds the auctions that had the most bids in the last ten."""
    counts = (
        nexmark.bids("auction", "dateTime")
        .key_by("auction")
        .window(sl.Sliding("10s", every="2s"))
        .aggregate(num=sl.count(), uid="counts")
        .select("auction", "num", "window_start", "window_end", starttime="window_start")
    )
    hottest = counts.key_by("starttime").window(sl.GivenWindow()).process(most_bids, schema=counts.schema, uid="most")
    return hottest.select("auction", "num", "starttime", endtime="window_end")


def most_bids(start: Any, window: Any, counts: pa.Table) -> pa.Table:
    """Called once for each window, with the counts of all auctions in it."""
    del start, window
    return counts.filter(pc.equal(counts["num"], pc.max(counts["num"])))


def q7(nexmark: Sources) -> sl.Stream:
    """Highest bid: of each ten seconds, first in eight parts side by side, then of these."""
    bids = nexmark.bids("auction", "price", "bidder", "dateTime", "extra")
    parts = bids.with_columns(part=remainder("auction", 8)).key_by("part").window(sl.Tumbling("10s"))
    highest = parts.process(highest_price, schema=bids.schema, uid="parts")
    starts = highest.with_columns(start=pc.floor_temporal(pc.field("dateTime"), 10, "second")).key_by("start")
    return starts.window(sl.Tumbling("10s")).process(highest_price, schema=bids.schema, uid="highest")


def highest_price(part: Any, window: Any, bids: pa.Table) -> pa.Table:
    """Called once for each part and window."""
    del part, window
    columns = ["auction", "price", "bidder", "dateTime", "extra"]
    return bids.filter(pc.equal(bids["price"], pc.max(bids["price"]))).select(columns)


def q8(nexmark: Sources) -> sl.Stream:
    """Monitor new users: who came and opened an auction within the same ten seconds."""
    windows = sl.Tumbling("10s")
    sellers = (
        nexmark.auctions("seller", "dateTime")
        .key_by("seller")
        .window(windows)
        .aggregate(auctions=sl.count(), uid="sellers")
        .select("seller", opened="window_start")
    )
    persons = nexmark.persons("id", "name", "dateTime").key_by("id")
    new = persons.window_join(sellers.key_by("seller"), windows, on=("dateTime", "opened"), uid="new")
    return new.select("id", "name", starttime="window_start")


def q21(nexmark: Sources) -> sl.Stream:
    """Channel ids: of well-known channels, and of others by the URL of the bid, if it has one."""
    bids = nexmark.bids("auction", "bidder", "price", "channel", "url")
    found = pc.struct_field(pc.extract_regex(pc.field("url"), pattern="(?:&|^)channel_id=(?P<id>[^&]*)"), "id")
    name = pc.utf8_lower(pc.field("channel"))
    number: pc.Expression = found
    for place, channel in enumerate(("apple", "google", "facebook", "baidu")):
        number = pc.if_else(name == channel, str(place), number)
    named = bids.with_columns(channel_id=number).filter(pc.field("channel_id").is_valid())
    return named.select("auction", "bidder", "price", "channel", "channel_id")


def q22(nexmark: Sources) -> sl.Stream:
    """Directories of URLs: the first three."""
    bids = nexmark.bids("auction", "bidder", "price", "channel", "url")
    pattern = "^[^/]*/[^/]*/[^/]*/(?P<dir1>[^/]*)/(?P<dir2>[^/]*)/(?P<dir3>[^/]*)"
    parts = {name: pc.struct_field(pc.extract_regex(pc.field("url"), pattern=pattern), name) for name in DIRECTORIES}
    return bids.with_columns(**parts).select("auction", "bidder", "price", "channel", *DIRECTORIES)


DIRECTORIES = ("dir1", "dir2", "dir3")


def q11(nexmark: Sources) -> sl.Stream:
    """User sessions: the bids of each bidder, as long as no ten seconds pass without one."""
    sessions = nexmark.bids("bidder", "dateTime").key_by("bidder").window(sl.Session("10s"))
    counts = sessions.aggregate(bid_count=sl.count(), uid="sessions")
    return counts.select("bidder", "bid_count", starttime="window_start", endtime="window_end")


def q12(nexmark: Sources) -> sl.Stream:
    """Processing time windows: the bids of each bidder in each ten seconds of the wall clock."""
    windows = nexmark.bids("bidder").key_by("bidder").window(sl.Tumbling("10s", processing_time=True))
    return windows.aggregate(bid_count=sl.count(), uid="counts").select("bidder", "bid_count")


# Results that are updated as more rows arrive.

DAY = pc.field("dateTime").cast(pa.date32())
RANKS = {
    "rank1": pc.field("price") < 10_000,
    "rank2": (pc.field("price") >= 10_000) & (pc.field("price") < 1_000_000),
    "rank3": pc.field("price") >= 1_000_000,
}
BIDS_BY_RANK: dict[str, Any] = {"total_bids": sl.count()} | {
    f"{rank}_bids": sl.count(where=which) for rank, which in RANKS.items()
}
DISTINCT_BY_RANK: dict[str, Any] = {
    f"{rank}_{name}": sl.count_distinct(column, where=which)
    for column, name in (("bidder", "bidders"), ("auction", "auctions"))
    for rank, which in {"total": None, **RANKS}.items()
}


def q15(nexmark: Sources) -> sl.Stream:
    """Bidding statistics: of each day, by the size of bids."""
    bids = nexmark.bids("auction", "bidder", "price", "dateTime").with_columns(day=DAY)
    return bids.key_by("day").aggregate(**BIDS_BY_RANK, **DISTINCT_BY_RANK, uid="days")


def q16(nexmark: Sources) -> sl.Stream:
    """Channel statistics: of each channel and day, by the size of bids."""
    bids = nexmark.bids("auction", "bidder", "price", "channel", "dateTime").with_columns(day=DAY)
    by_channel = bids.key_by("channel", "day").aggregate(
        last=sl.max("dateTime"), **BIDS_BY_RANK, **DISTINCT_BY_RANK, uid="channels"
    )
    return by_channel.with_columns(minute=pc.strftime(pc.field("last"), "%H:%M")).drop("last")


def q17(nexmark: Sources) -> sl.Stream:
    """Auction statistics: of each auction and day, by the size of bids."""
    bids = nexmark.bids("auction", "price", "dateTime").with_columns(day=DAY)
    return bids.key_by("auction", "day").aggregate(
        **BIDS_BY_RANK,
        min_price=sl.min("price"),
        max_price=sl.max("price"),
        avg_price=sl.mean("price"),
        sum_price=sl.sum("price"),
        uid="statistics",
    )


def q18(nexmark: Sources) -> sl.Stream:
    """Last bid: of each bidder for each auction, and of those of the same millisecond the highest."""
    bids = nexmark.bids().key_by("bidder", "auction")
    return bids.deduplicate(keep="last", by=["dateTime", "price"], uid="last")


def q19(nexmark: Sources) -> sl.Stream:
    """Auction top ten: the highest bids for each auction; of equal ones the earlier is ahead."""
    bids = nexmark.bids().key_by("auction")
    return bids.top_n(10, by=["price", "dateTime"], descending=[True, False], rank="rank", uid="top")


def remainder(column: str, divisor: int) -> pc.Expression:
    """Returns the remainder of a non-negative integer."""
    return pc.field(column) - pc.field(column) / divisor * divisor


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and how its rows form the answer; `key` is what they are grouped by."""

    build: Callable[[Sources], sl.Stream]
    reduction: Reduction = "all"
    key: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return (self.build.__doc__ or "").splitlines()[0]


QUERIES = {
    "q0": Query(q0),
    "q1": Query(q1),
    "q2": Query(q2),
    "q3": Query(q3),
    "q4": Query(q4, "last", ("category",)),
    "q5": Query(q5),
    "q7": Query(q7),
    "q8": Query(q8),
    "q9": Query(q9),
    "q11": Query(q11),
    "q12": Query(q12, "sum", ("bidder",)),
    "q13": Query(q13),
    "q14": Query(q14),
    "q15": Query(q15, "last", ("day",)),
    "q16": Query(q16, "last", ("channel", "day")),
    "q17": Query(q17, "last", ("auction", "day")),
    "q18": Query(q18, "last", ("bidder", "auction")),
    "q19": Query(q19, "last", ("auction", "rank")),
    "q20": Query(q20),
    "q21": Query(q21),
    "q22": Query(q22),
}

"""The events of Nexmark: the same whoever makes them, and such that the queries have something to find."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.nexmark.comparing import difference, reduced
from benchmarks.nexmark.generator import FIRST_ID, SCHEMAS, Kind, batch, row_count, schema_of
from benchmarks.nexmark.queries import QUERIES

EVENTS = 50_000
KINDS: list[Kind] = ["person", "auction", "bid"]


def rows(kind: Kind, *columns: str) -> pa.RecordBatch:
    return batch(kind, 0, row_count(kind, EVENTS), columns or None)


@pytest.mark.parametrize("kind", KINDS)
def test_any_range_of_rows_is_the_same_whoever_makes_it(kind: Kind) -> None:
    whole = batch(kind, 1000, 500)
    assert whole.schema == SCHEMAS[kind]
    assert whole.slice(123, 77).equals(batch(kind, 1123, 77))
    assert batch(kind, 1000, 0).num_rows == 0
    some = SCHEMAS[kind].names[::-2]
    assert batch(kind, 1000, 500, some).equals(whole.select(some))
    assert batch(kind, 1000, 500, some).schema == schema_of(kind, some)


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    assert [row_count(kind, 50) for kind in KINDS] == [1, 3, 46]
    for events in (0, 1, 3, 4, 49, 50, 51, 104):
        assert sum(row_count(kind, events) for kind in KINDS) == events


@pytest.mark.parametrize("kind", KINDS)
def test_event_time_rises_alike_in_all_kinds(kind: Kind) -> None:
    times = rows(kind, "dateTime").column("dateTime").cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[-1] - times[0] == pytest.approx(EVENTS / 10, rel=0.01)
    slow = batch(kind, 0, 100, ["dateTime"], 1000).column("dateTime").cast(pa.int64()).to_numpy()
    assert (slow - times[0] >= 9 * (times[:100] - times[0])).all()


def test_auctions_and_bids_name_what_exists_already() -> None:
    born = rows("person", "dateTime").column("dateTime").cast(pa.int64()).to_numpy()
    opened = rows("auction", "dateTime").column("dateTime").cast(pa.int64()).to_numpy()
    for kind, column, when in (("auction", "seller", born), ("bid", "bidder", born), ("bid", "auction", opened)):
        made = rows(kind, column, "dateTime")  # type: ignore[arg-type]
        places = made.column(column).to_numpy() - FIRST_ID
        assert places.min() == 0
        assert (when[places] <= made.column("dateTime").cast(pa.int64()).to_numpy()).all()


def test_some_auctions_and_persons_are_hot() -> None:
    bids, auctions = rows("bid", "auction", "bidder"), rows("auction", "seller")
    for column, share in (
        (bids.column("auction"), 0.5),
        (bids.column("bidder"), 0.75),
        (auctions.column("seller"), 0.75),
    ):
        remainders, counts = np.unique(column.to_numpy() % 100, return_counts=True)
        assert counts.max() / len(column) == pytest.approx(share, abs=0.03)
        assert len(remainders) == 100


def test_no_two_bids_of_a_millisecond_have_the_same_price() -> None:
    bids = pa.table(rows("bid", "dateTime", "price"))
    assert bids.group_by(["dateTime", "price"]).aggregate([]).num_rows == bids.num_rows
    assert pc.min(bids["price"]).as_py() >= 128
    assert 50_000 < pc.quantile(bids["price"])[0].as_py() < 250_000


def test_auctions_end_after_they_began() -> None:
    auctions = rows("auction", "dateTime", "expires", "initialBid", "reserve")
    assert pc.all(pc.greater(auctions.column("expires"), auctions.column("dateTime"))).as_py()
    assert pc.all(pc.greater(auctions.column("reserve"), auctions.column("initialBid"))).as_py()


def test_what_cannot_be_made_is_said() -> None:
    with pytest.raises(ValueError, match="a bid has no seller; it has auction, bidder"):
        batch("bid", 0, 1, ["seller"])
    with pytest.raises(ValueError, match="events_per_second=100000"):
        batch("bid", 0, 1, None, 100_000)


def test_answers_are_compared_as_rows_in_any_order() -> None:
    expected = pa.table({"key": ["a", "a", "b"], "mean": [1.0, 1.0, 3.0]})
    same = pa.table({"mean": [3.0 + 1e-12, 1.0, 1.0], "key": ["b", "a", "a"]})
    assert difference(same, expected) == ""
    assert "2 rows instead of 3" in difference(same.slice(1), expected)
    assert "1 rows missing, such as [('b', 3.0)]" in difference(same.slice(1), expected)
    once = pa.table({"key": ["a", "b", "b"], "mean": [1.0, 3.0, 3.0]})
    assert "1 rows nobody expects, such as [('b', 3.0)]" in difference(once, expected)
    assert "the columns are key" in difference(expected.select(["key"]), expected)


def test_updates_come_to_the_last_row_of_each_key_and_parts_to_their_sum() -> None:
    written = pa.table({"key": ["a", "b", "a"], "n": [1, 5, 2]})
    assert sorted(reduced(written, "last", ["key"]).to_pylist(), key=str) == [
        {"key": "a", "n": 2},
        {"key": "b", "n": 5},
    ]
    assert sorted(reduced(written, "sum", ["key"]).to_pylist(), key=str) == [{"key": "a", "n": 3}, {"key": "b", "n": 5}]
    assert reduced(written, "all", []) is written


def test_the_page_tells_of_every_query() -> None:
    page = (Path(__file__).parents[4] / "docs" / "nexmark.md").read_text()
    assert re.findall(r"^\| (q\d+) \|", page, re.MULTILINE) == list(QUERIES)

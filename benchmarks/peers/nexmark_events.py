"""Nexmark events whose columns can be computed both in SQL and with numpy, for comparisons with Flink.

Kinds, rates, hot auctions and hot persons are as in `benchmarks.nexmark.generator`; randomness is simpler: a
product modulo 2**32 instead of splitmix64, because SQL has no shifts. Numbers may be ints, arrays or `arithmetic.Sql`.
Only the standard library may be imported here: peers' interpreters read this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.peers.arithmetic import Sql, if_below, one_of

QUERIES = ("q1", "q3", "q5", "q7", "q8", "q11", "q18")
SQL_QUERIES = tuple(f"q{number}" for number in (*range(6), *range(7, 10), *range(11, 23)))
LONGEST_AUCTION_MS = 428
"""Twice the time in which as many auctions arrive as bids go to."""
EVENTS_IN_GROUP = 50
ROWS_IN_GROUP = {"person": 1, "auction": 3, "bid": 46}
EVENTS_PER_MS = 10
MAX_EVENTS = 1 << 30

_FIRST_IN_GROUP = {"person": 0, "auction": 1, "bid": 4}
_FIRST_ID = 1000
_FIRST_CATEGORY = 10
_CATEGORIES = 5
_BEGIN_MS = 1_437_004_770_000
_HOT_ONE_IN = 100
_WORD = 1 << 32
_FACTORS = (2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393, 3_935_559_001)
"""Odd, so that no two events have the same product modulo 2**32."""

_NAMES = (
    "Ada Dunn",
    "Ben Gould",
    "Cleo Hardin",
    "Dora Keller",
    "Emil Farrow",
    "Fay Jansen",
    "Gus Abbott",
    "Ivo Becker",
)
_CITIES = ("Phoenix", "Fresno", "Boise", "Portland", "Redmond", "Seattle", "Kent", "Cheyenne")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_URLS = tuple(f"https://www.nexmark.com/item/{name}/item.htm?query=1" for name in ("oak", "elm", "ash", "fir"))
_EXTRAS = tuple(f"{word} as the rest of a row" for word in ("plain", "fresh", "quiet", "round"))


_ITEMS = tuple(f"{word} of some use" for word in ("chair", "table", "clock", "lamp"))
_DESCRIPTIONS = tuple(f"{word}, with a few words on how it came to be sold here" for word in ("old", "new", "rare"))


def row_count(kind: str, events: int) -> int:
    """Returns how many of the first `events` events are of this kind; whole groups only."""
    return events // EVENTS_IN_GROUP * ROWS_IN_GROUP[kind]


def columns(kind: str, row: Any) -> Mapping[str, Callable[[], Any]]:
    """Returns the columns of the row with this number of its kind; `time_ms` and `expires_ms` are times."""
    rows = ROWS_IN_GROUP[kind]
    group, place = row // rows, row % rows
    event = group * EVENTS_IN_GROUP + place + _FIRST_IN_GROUP[kind]
    return {"time_ms": lambda: event // EVENTS_PER_MS + _BEGIN_MS, **_COLUMNS[kind](row, event, group)}


def interleaved(position: Any, rows: int) -> Any:
    """Returns the row that a source with two halves reads at a position, so that event time rises alike in both.

    Flink's number sequence gives one half of all numbers to each of two subtasks. `rows` must be even.
    """
    half = rows // 2
    if rows % 2:
        raise ValueError(f"{rows} rows have no halves; choose a number of events that can be divided by 100")
    return if_below(position, half, position * 2, (position - half) * 2 + 1)


def _persons(row: Any, event: Any, group: Any) -> dict[str, Callable[[], Any]]:
    del group
    return {
        "id": lambda: row + _FIRST_ID,
        "name": lambda: one_of(_NAMES, _below(_chance(event, 0), len(_NAMES))),
        "city": lambda: one_of(_CITIES, _below(_chance(event, 1), len(_CITIES))),
        "state": lambda: one_of(_STATES, _below(_chance(event, 2), len(_STATES))),
    }


def _auctions(row: Any, event: Any, group: Any) -> dict[str, Callable[[], Any]]:
    lasts_ms = _below(_chance(event, 4), LONGEST_AUCTION_MS)
    return {
        "id": lambda: row + _FIRST_ID,
        "itemName": lambda: one_of(_ITEMS, _below(_chance(event, 3), len(_ITEMS))),
        "description": lambda: one_of(_DESCRIPTIONS, _below(_chance(event, 3), len(_DESCRIPTIONS))),
        "initialBid": lambda: _below(_chance(event, 1), 100_000),
        "reserve": lambda: _below(_chance(event, 1), 100_000) + _below(_chance(event, 3), 100_000),
        "expires_ms": lambda: event // EVENTS_PER_MS + _BEGIN_MS + lasts_ms,
        "extra": lambda: one_of(_EXTRAS, _below(_chance(event, 5), len(_EXTRAS))),
        "seller": lambda: _person(event, group),
        "category": lambda: _below(_chance(event, 2), _CATEGORIES) + _FIRST_CATEGORY,
    }


def _bids(row: Any, event: Any, group: Any) -> dict[str, Callable[[], Any]]:
    del row
    return {
        "auction": lambda: _auction(event, group),
        "bidder": lambda: _person(event, group),
        "price": lambda: _chance(event, 4),
        "channel": lambda: one_of(_CHANNELS, _below(_chance(event, 5), len(_CHANNELS))),
        "url": lambda: one_of(_URLS, _below(_chance(event, 5), len(_URLS))),
        "extra": lambda: one_of(_EXTRAS, _below(_chance(event, 5), len(_EXTRAS))),
    }


_COLUMNS = {"person": _persons, "auction": _auctions, "bid": _bids}


def _chance(event: Any, which: int) -> Any:
    """Returns 32 bits that look random."""
    return event * _FACTORS[which] % _WORD


def _below(chance: Any, limit: int) -> Any:
    """Returns a number from 0 to just below a limit, from the upper bits: the lower bits of a product are regular."""
    return chance * limit // _WORD


def _person(event: Any, group: Any) -> Any:
    """Returns an existing person: three of four times a hot one, otherwise one of the last thousand."""
    hot = group // _HOT_ONE_IN * _HOT_ONE_IN
    return if_below(_chance(event, 0), _WORD // 4 * 3, hot, _back(group, _below(_chance(event, 1), 1024))) + _FIRST_ID


def _auction(event: Any, group: Any) -> Any:
    """Returns an existing auction: half of the time a hot one, otherwise one of the last hundred or so."""
    last = group * ROWS_IN_GROUP["auction"] + ROWS_IN_GROUP["auction"] - 1
    hot = last // _HOT_ONE_IN * _HOT_ONE_IN
    return if_below(_chance(event, 2), _WORD // 2, hot, _back(last, _below(_chance(event, 3), 128))) + _FIRST_ID


def _back(last: Any, steps: Any) -> Any:
    """Returns the number `steps` before the last, or the first."""
    return if_below(last, steps, last * 0, last - steps)


def sql(kind: str, position: str, rows: int) -> dict[str, Sql]:
    """Returns the columns of a kind in SQL; `position` names a number from 0 to just below `rows`."""
    return {name: make() for name, make in columns(kind, interleaved(Sql(position), rows)).items()}

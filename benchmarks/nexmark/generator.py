"""The events of Nexmark, each determined by its number alone.

As in Nexmark, of every 50 events the first is a new person, the next three are auctions and the other 46 bids, and the
hot keys are the same: half of the bids go to one auction in a hundred, three quarters come from one person in a
hundred, and so do three quarters of the auctions. Event time rises with the number. Two things differ, so that joins
find matches and answers are unambiguous: bids and auctions refer only to auctions and persons that already exist, and
no two bids of the same millisecond have the same price.

A range of rows is the same in every process, independent of what was generated before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Kind: TypeAlias = Literal["person", "auction", "bid"]
Numbers: TypeAlias = "npt.NDArray[np.int64]"
Bits: TypeAlias = "npt.NDArray[np.uint64]"

EVENTS_PER_SECOND = 10_000
"""Of event time."""
MAX_EVENTS_PER_SECOND = 64_000
"""With more, two bids of one millisecond could have the same price."""

EVENTS_IN_GROUP = 50
FIRST_IN_GROUP: dict[Kind, int] = {"person": 0, "auction": 1, "bid": 4}
ROWS_IN_GROUP: dict[Kind, int] = {"person": 1, "auction": 3, "bid": 46}

FIRST_ID = 1000
FIRST_CATEGORY = 10
CATEGORIES = 5
BEGIN_MS = 1_437_004_770_000
"""2015-07-15 23:59:30: answers by day soon cover more than one day."""

_TIME = pa.timestamp("ms")
SCHEMAS: dict[Kind, pa.Schema] = {
    "person": pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("emailAddress", pa.string()),
            ("creditCard", pa.string()),
            ("city", pa.string()),
            ("state", pa.string()),
            ("dateTime", _TIME),
            ("extra", pa.string()),
        ]
    ),
    "auction": pa.schema(
        [
            ("id", pa.int64()),
            ("itemName", pa.string()),
            ("description", pa.string()),
            ("initialBid", pa.int64()),
            ("reserve", pa.int64()),
            ("dateTime", _TIME),
            ("expires", _TIME),
            ("seller", pa.int64()),
            ("category", pa.int64()),
            ("extra", pa.string()),
        ]
    ),
    "bid": pa.schema(
        [
            ("auction", pa.int64()),
            ("bidder", pa.int64()),
            ("price", pa.int64()),
            ("channel", pa.string()),
            ("url", pa.string()),
            ("dateTime", _TIME),
            ("extra", pa.string()),
        ]
    ),
}

_ACTIVE_PERSONS = 1000
_AUCTIONS_IN_FLIGHT = 100
_EVENTS_IN_FLIGHT = _AUCTIONS_IN_FLIGHT * EVENTS_IN_GROUP // ROWS_IN_GROUP["auction"]
_ONE_IN = 100
"""One auction, bidder and seller in this many is hot."""
_CHANNELS = 10_000
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_DISTINCT_PRICES_IN_A_ROW = 64

_FIRST_NAMES = ["Ada", "Ben", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "June", "Kai", "Lena", "Otis"]
_LAST_NAMES = ["Abbott", "Becker", "Castle", "Dunn", "Ekberg", "Farrow", "Gould", "Hardin", "Jansen", "Keller"]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
_CITIES = ["Phoenix", "Fresno", "Boise", "Portland", "Redmond", "Seattle", "Bend", "Kent", "Laramie", "Cheyenne"]


def row_count(kind: Kind, events: int) -> int:
    """Returns how many of the first `events` events are of this kind."""
    groups, rest = divmod(events, EVENTS_IN_GROUP)
    return groups * ROWS_IN_GROUP[kind] + min(max(rest - FIRST_IN_GROUP[kind], 0), ROWS_IN_GROUP[kind])


def longest_auction_ms(events_per_second: int) -> int:
    """No auction is open for longer."""
    return 2 * (_EVENTS_IN_FLIGHT * 1000 // events_per_second + 1)


def batch(
    kind: Kind,
    start: int,
    count: int,
    columns: Sequence[str] | None = None,
    events_per_second: int = EVENTS_PER_SECOND,
) -> pa.RecordBatch:
    """Returns `count` rows of a kind from row number `start`; the numbers of each kind start at 0.

    `columns` limits the columns. Raises `ValueError` for an unknown column or an impossible rate.
    """
    if not 0 < events_per_second <= MAX_EVENTS_PER_SECOND:
        raise ValueError(f"events_per_second={events_per_second}: use 1 to {MAX_EVENTS_PER_SECOND}")
    schema = schema_of(kind, columns)
    groups, places = np.divmod(np.arange(start, start + count, dtype=np.int64), ROWS_IN_GROUP[kind])
    events = groups * EVENTS_IN_GROUP + places + FIRST_IN_GROUP[kind]
    rows = _ROWS[kind](events, groups, places, events_per_second)
    return pa.RecordBatch.from_arrays([_MAKERS[kind][name](rows) for name in schema.names], schema=schema)


def side_input() -> pa.Table:
    """Returns the lookup table for bids: nine of ten numbers below 10,000, with a text for each."""
    keys = [key for key in range(10_000) if key % 10 != 9]
    return pa.table({"key": pa.array(keys, pa.int64()), "value": [f"side-{key}" for key in keys]})


def schema_of(kind: Kind, columns: Iterable[str] | None = None) -> pa.Schema:
    """Returns the schema of a kind, or of these columns of it."""
    schema = SCHEMAS[kind]
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise ValueError(f"a {kind} has no {', '.join(unknown)}; it has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


def mixed(numbers: Numbers | Bits, salt: int) -> Bits:
    """Returns 64 random bits per number, the same for the same number and salt (the last steps of splitmix64)."""
    bits = numbers.astype(np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    bits += np.uint64((salt + 1) * 0xD1B54A32D192ED03 & 0xFFFFFFFFFFFFFFFF)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


class _Rows:
    """The ingredients of the columns of a range of rows, each computed on first use."""

    def __init__(self, events: Numbers, groups: Numbers, places: Numbers, events_per_second: int) -> None:
        self.events = events
        self.places = places
        self.last_person = groups
        """The number of the newest person: every group starts with one."""
        self._events_per_second = events_per_second

    @cached_property
    def time_ms(self) -> Numbers:
        return self.time_ms_of(self.events)

    def time_ms_of(self, events: Numbers) -> Numbers:
        return BEGIN_MS + events * 1000 // self._events_per_second

    @cached_property
    def who(self) -> Bits:
        return mixed(self.events, 1)

    @cached_property
    def what(self) -> Bits:
        return mixed(self.events, 2)

    @cached_property
    def words(self) -> Bits:
        return mixed(self.events, 3)

    def person(self, hot_place: int) -> Numbers:
        """Returns ids of existing persons: three of four times a hot one, otherwise one of the active ones."""
        last = self.last_person
        hot = np.maximum(last - hot_place, 0) // _ONE_IN * _ONE_IN + np.minimum(hot_place, last)
        active = np.minimum(last + 1, _ACTIVE_PERSONS)
        other = last + 1 - active + _below(self.who, 0, active)
        return FIRST_ID + np.where(_field(self.who, 60, 2) != 0, hot, other)


class _Persons(_Rows):
    """Returns rows of persons."""


class _Auctions(_Rows):
    @cached_property
    def number(self) -> Numbers:
        return self.last_person * ROWS_IN_GROUP["auction"] + self.places

    @cached_property
    def initial_bid(self) -> Numbers:
        return _prices(_field(self.what, 0, 32))

    @cached_property
    def expires_ms(self) -> Numbers:
        """Up to twice the time in which as many auctions arrive as are in flight."""
        longest = np.maximum((self.time_ms_of(self.events + _EVENTS_IN_FLIGHT) - self.time_ms) * 2, 1)
        return self.time_ms + 1 + _below(self.words, 0, longest)


class _Bids(_Rows):
    @cached_property
    def auction(self) -> Numbers:
        last = self.last_person * ROWS_IN_GROUP["auction"] + ROWS_IN_GROUP["auction"] - 1
        hot = last // _ONE_IN * _ONE_IN
        first = np.maximum(last - _AUCTIONS_IN_FLIGHT, 0)
        other = first + _below(self.who, 20, last - first + 1)
        return FIRST_ID + np.where(_field(self.who, 62, 1) != 0, hot, other)

    @cached_property
    def price(self) -> Numbers:
        rough = _prices(_field(self.what, 0, 32))
        rough -= rough % _DISTINCT_PRICES_IN_A_ROW
        return rough + self.events % _DISTINCT_PRICES_IN_A_ROW

    @cached_property
    def channel(self) -> Numbers:
        """Returns a hot channel half of the time."""
        hot = _field(self.what, 32, 2)
        other = len(_HOT_CHANNELS) + _below(self.what, 34, _CHANNELS)
        return np.where(_field(self.what, 63, 1) != 0, hot, other)


def _field(bits: Bits, first: int, width: int) -> Numbers:
    """Returns a slice of the bits as a number."""
    return ((bits >> np.uint64(first)) & np.uint64((1 << width) - 1)).view(np.int64)


def _below(bits: Bits, first: int, limit: Numbers | int) -> Numbers:
    """Returns a number from 0 to just below `limit`, which is small, from 20 of the bits."""
    return _field(bits, first, 20) * limit >> 20


def _prices(chance: Numbers) -> Numbers:
    """Returns prices from 1.28 to a million, in cents, log-uniform; `chance` has 32 bits."""
    steps = _price_steps()
    step = chance >> 16
    low = steps[step]
    prices: Numbers = low + ((steps[step + 1] - low) * (chance & 0xFFFF) >> 16)
    return prices


@cache
def _price_steps() -> Numbers:
    # integers from here on: the last digit of a power may differ between machines
    steps: Numbers = np.round(128 * 10 ** (np.arange((1 << 16) + 1) / (1 << 16) * 5.9)).astype(np.int64)
    return steps


# Text comes from pools.


@cache
def _words(salt: int, number: int, shortest: int, longest: int, alphabet: str) -> pa.StringArray:
    """Returns a pool of random words."""
    lengths = shortest + _below(mixed(np.arange(number), salt), 0, longest - shortest + 1)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    letters = np.frombuffer(alphabet.encode(), dtype=np.uint8)
    text = letters[_below(mixed(np.arange(offsets[-1]), salt + 1), 0, len(letters))]
    return pa.StringArray.from_buffers(number, pa.py_buffer(offsets), pa.py_buffer(text))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_POOL = 1 << 12


def _taken(pool: pa.StringArray, indices: Numbers) -> pa.StringArray:
    return pool.take(pa.array(indices))


def _word(bits: Bits, first: int, salt: int, shortest: int, longest: int, alphabet: str = _LETTERS) -> pa.StringArray:
    """Returns a word of the pool for each row, chosen by 12 of the bits."""
    return _taken(_words(salt, _POOL, shortest, longest, alphabet), _field(bits, first, 12))


@cache
def _listed(*words: str) -> pa.StringArray:
    return pa.array(words, pa.string())


def _one_of(words: Sequence[str], bits: Bits, first: int) -> pa.StringArray:
    return _taken(_listed(*words), _below(bits, first, len(words)))


@cache
def _digits() -> pa.StringArray:
    return pa.array([f"{number:04d}" for number in range(10_000)])


@cache
def _channels() -> pa.StringArray:
    return pa.array([*_HOT_CHANNELS, *(f"channel-{number}" for number in range(_CHANNELS))])


@cache
def _urls() -> pa.StringArray:
    """Returns one URL per channel; one in ten of those that are not hot does not name the channel."""
    number = len(_HOT_CHANNELS) + _CHANNELS
    parts = [_words(salt, number, 5, 5, _LETTERS + "_").to_pylist() for salt in (100, 102, 104)]
    named = _below(mixed(np.arange(number), 106), 0, 10) != 0
    return pa.array(
        f"https://www.nexmark.com/{'/'.join(words)}/item.htm?query=1"
        + (f"&channel_id={place - len(_HOT_CHANNELS)}" if place >= len(_HOT_CHANNELS) and named[place] else "")
        for place, words in enumerate(zip(*parts, strict=True))
    )


def _credit_card(rows: _Rows) -> pa.StringArray:
    groups = [_taken(_digits(), _below(rows.what, 20 * place, 10_000)) for place in range(3)]
    groups.append(_taken(_digits(), _below(rows.words, 44, 10_000)))
    return pc.binary_join_element_wise(*groups, " ")


def _numbers(values: Numbers) -> pa.Array:
    return pa.array(values, pa.int64())


def _times(values: Numbers) -> pa.Array:
    return pa.array(values.view("datetime64[ms]"))


_ROWS: dict[Kind, type[_Rows]] = {"person": _Persons, "auction": _Auctions, "bid": _Bids}

_MAKERS: dict[Kind, dict[str, Callable[..., pa.Array]]] = {
    "person": {
        "id": lambda rows: _numbers(FIRST_ID + rows.last_person),
        "name": lambda rows: pc.binary_join_element_wise(
            _one_of(_FIRST_NAMES, rows.who, 0), _one_of(_LAST_NAMES, rows.who, 20), " "
        ),
        "emailAddress": lambda rows: pc.binary_join_element_wise(
            _word(rows.words, 0, 10, 5, 9), "@", _word(rows.words, 12, 12, 4, 6), ".com", ""
        ),
        "creditCard": _credit_card,
        "city": lambda rows: _one_of(_CITIES, rows.who, 40),
        "state": lambda rows: _one_of(_STATES, rows.words, 24),
        "dateTime": lambda rows: _times(rows.time_ms),
        "extra": lambda rows: _word(rows.words, 52, 14, 60, 140),
    },
    "auction": {
        "id": lambda rows: _numbers(FIRST_ID + rows.number),
        "itemName": lambda rows: _word(rows.words, 20, 16, 8, 20, _LETTERS + "  "),
        "description": lambda rows: _word(rows.words, 32, 18, 40, 100, _LETTERS + "    "),
        "initialBid": lambda rows: _numbers(rows.initial_bid),
        "reserve": lambda rows: _numbers(rows.initial_bid + _prices(_field(rows.what, 32, 32))),
        "dateTime": lambda rows: _times(rows.time_ms),
        "expires": lambda rows: _times(rows.expires_ms),
        "seller": lambda rows: _numbers(rows.person(0)),
        "category": lambda rows: _numbers(FIRST_CATEGORY + _below(rows.who, 20, CATEGORIES)),
        "extra": lambda rows: _word(rows.words, 44, 20, 150, 350),
    },
    "bid": {
        "auction": lambda rows: _numbers(rows.auction),
        "bidder": lambda rows: _numbers(rows.person(1)),
        "price": lambda rows: _numbers(rows.price),
        "channel": lambda rows: _taken(_channels(), rows.channel),
        "url": lambda rows: _taken(_urls(), rows.channel),
        "dateTime": lambda rows: _times(rows.time_ms),
        "extra": lambda rows: _word(rows.words, 0, 22, 10, 40),
    },
}

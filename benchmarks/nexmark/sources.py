"""Nexmark's persons, auctions and bids as sources of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pyarrow as pa
from benchmarks.nexmark import generator
from benchmarks.nexmark.generator import EVENTS_IN_GROUP, EVENTS_PER_SECOND, ROWS_IN_GROUP, Kind

import snapline as sl


def persons(
    events: int,
    columns: Sequence[str] | None = None,
    *,
    events_per_second: int = EVENTS_PER_SECOND,
    rate: float | None = None,
) -> sl.Source:
    """Returns the persons among the first `events` events, with all columns or these.

    `events_per_second` refers to event time; `rate` limits the events per second, persons or not, so that sources of
    the same rate advance together.
    """
    return _source("person", events, columns, events_per_second, rate)


def auctions(
    events: int,
    columns: Sequence[str] | None = None,
    *,
    events_per_second: int = EVENTS_PER_SECOND,
    rate: float | None = None,
) -> sl.Source:
    """Returns the auctions among the first `events` events; otherwise like `persons`."""
    return _source("auction", events, columns, events_per_second, rate)


def bids(
    events: int,
    columns: Sequence[str] | None = None,
    *,
    events_per_second: int = EVENTS_PER_SECOND,
    rate: float | None = None,
) -> sl.Source:
    """Returns the bids among the first `events` events; otherwise like `persons`."""
    return _source("bid", events, columns, events_per_second, rate)


@dataclass(frozen=True, slots=True)
class Sources:
    """The three streams of a job, each with the requested columns and watermarks of `dateTime`."""

    job: sl.Job
    events: int
    events_per_second: int = EVENTS_PER_SECOND
    rate: float | None = None

    def persons(self, *columns: str) -> sl.Stream:
        return self._stream("person", columns)

    def auctions(self, *columns: str) -> sl.Stream:
        return self._stream("auction", columns)

    def bids(self, *columns: str) -> sl.Stream:
        return self._stream("bid", columns)

    @property
    def longest_auction(self) -> timedelta:
        """No auction is open for longer."""
        return timedelta(milliseconds=generator.longest_auction_ms(self.events_per_second))

    def _stream(self, kind: Kind, columns: Sequence[str]) -> sl.Stream:
        source = _source(kind, self.events, columns or None, self.events_per_second, self.rate)
        # events arrive in the order of their time, so none is late
        watermarks = sl.Watermarks("dateTime") if "dateTime" in source.schema.names else None
        return self.job.source(source, uid=f"{kind}s", watermarks=watermarks)


def _source(
    kind: Kind, events: int, columns: Sequence[str] | None, events_per_second: int, rate: float | None
) -> sl.Source:
    schema: pa.Schema = generator.schema_of(kind, columns)
    return sl.sources.Generate(
        partial(generator.batch, kind, columns=columns, events_per_second=events_per_second),
        generator.row_count(kind, events),
        schema=schema,
        rows_per_second=None if rate is None else rate * ROWS_IN_GROUP[kind] / EVENTS_IN_GROUP,
    )

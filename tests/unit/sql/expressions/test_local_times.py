"""Expected values are what Java's `ZonedDateTime` gives."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from tests.expression_kit import call

from snapline.sql.expressions.local_times import (
    local_days,
    moved,
    named_zone,
    plus_interval,
    session_zone,
    starts_of_days,
)
from snapline.sql.expressions.registry import SparkError
from snapline.sql.expressions.zone_offsets import zone

NEW_YORK = zone("America/New_York")
HOUR_US = 3_600_000_000


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def test_the_second_of_two_equal_local_times_stays_the_second() -> None:
    half_past_one = np.array([micros("2024-11-03T05:30:00"), micros("2024-11-03T06:30:00")])
    truncated = moved(half_past_one, NEW_YORK, lambda local: local - local % HOUR_US)
    assert truncated.tolist() == [micros("2024-11-03T05:00:00"), micros("2024-11-03T06:00:00")]


def test_a_day_later_is_the_same_local_time_and_a_skipped_one_moves_on() -> None:
    none, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    before = np.array([micros("2024-03-09T07:30:00")])
    assert plus_interval(before, none, one, none, NEW_YORK).tolist() == [micros("2024-03-10T07:30:00")]
    noon = np.array([micros("2024-03-09T17:00:00")])
    assert plus_interval(noon, none, one, none, NEW_YORK).tolist() == [micros("2024-03-10T16:00:00")]


def test_days_begin_at_local_midnight() -> None:
    start = starts_of_days(np.array([19_753]), NEW_YORK)
    assert start.tolist() == [micros("2024-01-31T05:00:00")]
    assert local_days(start - 1, NEW_YORK).tolist() == [19_752]


def test_zones_of_the_session_matter_only_for_instants() -> None:
    expression = call("Hour", pa.int32(), timeZoneId="America/New_York")
    assert session_zone(expression, pa.timestamp("us", "UTC")) is NEW_YORK
    assert session_zone(expression, pa.timestamp("us")).local(np.array([5])).tolist() == [5]


def test_unknown_zones() -> None:
    with pytest.raises(SparkError, match="INVALID_TIMEZONE"):
        named_zone("Foo/Bar")

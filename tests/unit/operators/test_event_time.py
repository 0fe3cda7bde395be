"""Times of columns in any unit, and the watermark that checkpoints keep."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.operators.event_time import SavedWatermark, newest_time_ms, per_second, ticks_per_ms, times
from snapline.testing.operator_harness import OperatorHarness
from snapline.types import MAX_WATERMARK


def stamps(unit: str, *numbers: int | None) -> pa.Array:
    return pa.array(numbers, pa.int64()).view(pa.timestamp(unit))


def test_units_have_a_resolution() -> None:
    kinds = [pa.int32(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns"))]
    assert list(map(per_second, kinds)) == [1000, 1, 1000, 10**6, 10**9]
    assert list(map(ticks_per_ms, kinds)) == [1, 1, 1, 1000, 10**6]


@pytest.mark.parametrize(
    ("column", "ticks", "expected"),
    [
        (pa.array([-5, 5], pa.int16()), 1, [-5, 5]),
        (stamps("s", -5, 5), 1, [-5000, 5000]),
        (stamps("us", -1, 1999), 1, [-1, 1]),
        (stamps("ns", -1, 1_999_999), 1, [-1, 1]),
        (stamps("ms", -5, 5), 1000, [-5000, 5000]),
        (stamps("ns", -1, 1999), 1000, [-1, 1]),
        (pa.array([], pa.int64()), 1, []),
    ],
)
def test_times_are_scaled_and_rounded_down(column: pa.Array, ticks: int, expected: list[int]) -> None:
    assert times(column, "t", "it", ticks).tolist() == expected


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        (stamps("ms", 1, None), "join 'it': the time column 't' has nulls; filter such rows out"),
        (stamps("s", 1 << 60), "join 'it': the time column 't' has times out of range: overflow"),
        (pa.array([1 << 63], pa.uint64()), "the time column 't' has times out of range"),
    ],
)
def test_nulls_and_times_out_of_range_name_the_column(column: pa.Array, complaint: str) -> None:
    with pytest.raises(UserCodeError, match=complaint):
        times(column, "t", "join 'it'")


def test_the_newest_time_in_milliseconds() -> None:
    assert newest_time_ms(pa.array([3, None, 7], pa.int32())) == 7
    assert newest_time_ms(stamps("s", 3, None, -7)) == 3000
    assert newest_time_ms(stamps("us", -1)) == -1
    assert newest_time_ms(stamps("ns", None)) is None


def saved(harness: OperatorHarness) -> Any:
    return harness.states.operator.union_list_state("watermark", int)


def test_the_saved_watermark_never_goes_back_and_does_not_keep_the_end() -> None:
    harness = OperatorHarness(None)  # type: ignore[arg-type]  # only its context is used
    watermark = SavedWatermark(harness.context)
    assert watermark.ms == -MAX_WATERMARK
    for timestamp_ms in (50, 40):
        watermark.advance(timestamp_ms)
    watermark.save()
    assert (watermark.ms, saved(harness).get()) == (50, [50])
    watermark.advance(MAX_WATERMARK)
    watermark.save()
    assert saved(harness).get() == []


def test_the_least_watermark_of_all_subtasks_is_restored() -> None:
    harness = OperatorHarness(None)  # type: ignore[arg-type]  # only its context is used
    saved(harness).extend([70, 30, 50])
    assert SavedWatermark(harness.context).ms == 30

"""Sliding windows that share slices."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.operators.windows.window_kit import Run, keyed, opened, rows, values

import snapline as sl
from snapline.operators.windows.sliced_windows import slices_of
from snapline.types import MAX_WATERMARK


def test_within_the_lateness_rows_lead_to_new_results(run: Run) -> None:
    stream = keyed().window(sl.Sliding("10ms", every="5ms")).allowed_lateness("10ms").aggregate(uid="w", n=sl.count())
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 7, 1)), 0)
    harness.operator.watermark(9)
    assert values(harness) == [("a", 0, 10, 1)]
    harness.operator.process(rows(("a", 8, 1), ("a", 9, 1)), 0)
    assert values(harness) == [("a", 0, 10, 3)]
    harness.operator.watermark(19)
    assert values(harness) == [("a", 5, 15, 3)]
    # The first window is over, the second one is still kept.
    harness.operator.process(rows(("a", 8, 1)), 0)
    assert values(harness) == [("a", 5, 15, 4)]
    harness.operator.watermark(24)
    harness.operator.process(rows(("a", 8, 1)), 0)
    assert (values(harness), harness.operator.late_rows) == ([], 1)
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_a_window_of_results_of_windows(run: Run) -> None:
    counts = keyed().window(sl.Sliding("10ms", every="5ms")).aggregate(uid="counts", n=sl.count())
    first = opened(run, counts)
    most = counts.key_by("window_start", "window_end").window(sl.GivenWindow()).aggregate(uid="most", most=sl.max("n"))
    assert most.schema.names == ["window_start", "window_end", "most"]
    second = opened(run, most, "window_start bigint, window_end bigint", ("window_start", "window_end"))
    first.operator.process(rows(("a", 1, 1), ("b", 2, 1), ("a", 7, 1), ("c", 21, 1)), 0)
    for watermark_ms in (9, 22, MAX_WATERMARK):
        first.operator.watermark(watermark_ms)
        for batch in first.emitted:
            second.operator.process(batch, 0)
        first.emitted.clear()
        second.operator.watermark(watermark_ms)
    assert second.operator.late_rows == 0
    assert sorted(values(second)) == [(-5, 5, 1), (0, 10, 2), (5, 15, 1), (15, 25, 1), (20, 30, 1)]


def test_windows_are_cut_where_any_of_them_starts_or_ends() -> None:
    slices = slices_of(10, 4, 1)
    assert slices is not None
    assert (slices.slice_ms, slices.count) == (2, 5)
    times = np.arange(-20, 20)
    starts = slices.slice_starts(times)
    first, last = slices.first_windows(starts), slices.last_windows(starts)
    for time, begin, end in zip(times.tolist(), first.tolist(), last.tolist(), strict=True):
        expected = [start for start in range(-39, 40, 4) if start <= time < start + 10]
        assert [begin, end] == [expected[0], expected[-1]]


def test_windows_of_too_many_slices_are_not_sliced() -> None:
    assert slices_of(3600, 1, 0) is not None
    assert slices_of(3601, 1, 0) is None


@pytest.mark.parametrize("together", [1, 1 << 20])
def test_results_do_not_depend_on_how_many_slices_are_combined_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr("snapline.operators.windows.sliced_windows._TOGETHER", together)
    stream = keyed().window(sl.Sliding("4ms", every="2ms")).aggregate(uid="w", total=sl.sum("value"))
    harness = opened(run, stream)
    harness.operator.process(rows(*((user, time, 10**time) for user in "abc" for time in range(6))), 0)
    harness.operator.watermark(MAX_WATERMARK)
    expected = [(-2, 2, 11), (0, 4, 1111), (2, 6, 111_100), (4, 8, 110_000)]
    assert sorted(values(harness)) == [(user, *row) for user in "abc" for row in expected]
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_gaps_between_windows_belong_to_none(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Sliding("2ms", every="5ms")).aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 1, 1), ("a", 2, 1), ("a", 4, 1), ("a", 5, 1)), 0)
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 0, 2, 1), ("a", 5, 7, 1)]
    assert harness.operator.late_rows == 0

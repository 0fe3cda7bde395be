"""Figures of a measurement: percentiles, and what counts as measured."""

from __future__ import annotations

import pytest

from snapline.protocol.statistics.summary import Summary, Tally, median, percentile


@pytest.mark.parametrize(
    ("values", "permille", "expected"),
    [
        ([7], 500, 7.0),
        ([1, 2], 500, 1.5),
        ([1, 2, 3], 500, 2.0),
        ([10, 20, 30, 40], 250, 12.5),
        ([10, 20, 30, 40], 900, 40.0),
        ([10, 20, 30, 40], 100, 10.0),
        (list(range(1, 101)), 990, 99.99),
        (list(range(1, 101)), 900, 90.9),
        (list(range(1, 1001)), 999, 999.999),
    ],
)
def test_percentiles_are_interpolated_at_p_times_n_plus_one(values: list[int], permille: int, expected: float) -> None:
    assert percentile(values, permille) == pytest.approx(expected)


def test_a_summary_leaves_out_what_was_not_measured() -> None:
    assert Summary.of([-1, -5]) == Summary()
    assert Summary.of([3, -1, 1]) == Summary(2, 1, 3, 2, 2.0, 3.0, 3.0, 3.0, 3.0)


def test_a_tally_of_everything_is_the_summary_of_everything() -> None:
    values = [30, -1, 10, 20, 41, 10]
    tally = Tally(window=len(values))
    for value in values:
        tally.add(value)
    assert tally.summary() == Summary.of(values)


def test_a_tally_forgets_old_values_in_its_percentiles_only() -> None:
    tally = Tally(window=2)
    for value in (100, 1, 3):
        tally.add(value)
    summary = tally.summary()
    assert (summary.count, summary.min, summary.max, summary.avg) == (3, 1, 100, 34)
    assert (summary.p50, summary.p999) == (2.0, 3.0)


def test_the_median_of_nothing_is_nothing() -> None:
    assert (median([]), median([7]), median([9, 1]), median([9, 1, 4])) == (0, 7, 5, 4)

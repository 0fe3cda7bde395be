"""Session windows: how they grow, merge and fire."""

from __future__ import annotations

from tests.unit.operators.windows.window_kit import Run, keyed, opened, rows, values

import snapline as sl
from snapline.types import MAX_WATERMARK


def test_rows_closer_than_the_gap_are_one_session(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Session("10ms")).aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 5, 1), ("a", 0, 1), ("b", 3, 1), ("a", 15, 1), ("a", 26, 1)), 0)
    harness.operator.watermark(24)
    assert sorted(values(harness)) == [("a", 0, 25, 3), ("b", 3, 13, 1)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 26, 36, 1)]
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_a_row_in_between_merges_two_sessions(run: Run) -> None:
    stream = keyed().window(sl.Session("10ms")).aggregate(uid="w", total=sl.sum("value"), all=sl.collect("value"))
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 0, 1), ("a", 18, 2)), 0)
    harness.operator.process(rows(("a", 9, 4)), 0)
    harness.operator.watermark(27)
    assert [(row[:4], sorted(row[4])) for row in values(harness)] == [(("a", 0, 28, 7), [1, 2, 4])]


def test_a_session_that_grows_fires_at_its_new_end(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Session("10ms")).aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 0, 1)), 0)
    harness.operator.watermark(5)
    harness.operator.process(rows(("a", 8, 1)), 0)
    harness.operator.watermark(16)
    assert values(harness) == []
    harness.operator.watermark(17)
    assert values(harness) == [("a", 0, 18, 2)]


def test_within_the_lateness_a_session_fires_again_and_then_is_gone(run: Run) -> None:
    stream = keyed().window(sl.Session("10ms")).allowed_lateness("20ms").aggregate(uid="w", n=sl.count())
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 0, 1)), 0)
    harness.operator.watermark(9)
    assert values(harness) == [("a", 0, 10, 1)]
    harness.operator.process(rows(("a", 0, 1)), 0)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(29)
    harness.operator.process(rows(("a", 0, 1)), 0)
    assert (values(harness), harness.operator.late_rows) == ([], 1)
    harness.operator.watermark(MAX_WATERMARK)
    assert (values(harness), len(harness.states.keyed.timers("bigint"))) == ([], 0)

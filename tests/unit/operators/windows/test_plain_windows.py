"""Windows stored one by one: when they fire, triggers by rows and by event time, given windows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.operators.windows.window_kit import Run, keyed, opened, rows, values

import snapline as sl
from snapline.types import MAX_WATERMARK


def test_a_window_fires_in_the_millisecond_its_last_row_could_have(run: Run) -> None:
    harness = opened(run, keyed().window(sl.Tumbling("10ms", "3ms")).aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 2, 1), ("a", 3, 1), ("b", 12, 1), ("b", 13, 1)), 0)
    harness.operator.watermark(11)
    assert values(harness) == [("a", -7, 3, 1)]
    harness.operator.watermark(12)
    assert sorted(values(harness)) == [("a", 3, 13, 1), ("b", 3, 13, 1)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("b", 13, 23, 1)]


@pytest.mark.parametrize("sizes", [(7,), (1,) * 7, (3, 4)])
def test_counting_does_not_depend_on_batches(run: Run, sizes: tuple[int, ...]) -> None:
    stream = keyed().window(sl.GlobalWindow()).trigger(sl.EveryRows(3)).aggregate(uid="w", total=sl.sum("value"))
    assert stream.schema.names == ["user", "total"]
    purging = (
        keyed().window(sl.GlobalWindow()).trigger(sl.EveryRows(2, purge=True)).aggregate(uid="w", n=sl.sum("value"))
    )
    keeping, beginning_anew = opened(run, stream), opened(run, purging)
    given = [("a", 0, number) for number in range(1, 8)]
    for size in sizes:
        for harness in (keeping, beginning_anew):
            harness.operator.process(rows(*given[:size]), 0)
        given = given[size:]
    assert values(keeping) == [("a", 6), ("a", 21)]
    assert values(beginning_anew) == [("a", 3), ("a", 7), ("a", 11)]


def test_count_in_a_window_with_an_end_leaves_out_what_is_left(run: Run) -> None:
    window = keyed().window(sl.Sliding("10ms", every="5ms")).trigger(sl.EveryRows(2))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 1, 1), ("a", 6, 1)), 0)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == []
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_early_results_after_so_many_rows(run: Run) -> None:
    window = keyed().window(sl.Tumbling("10ms")).trigger(sl.WhenComplete(early_rows=2))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(*[("a", 1, 1)] * 5), 0)
    assert values(harness) == [("a", 0, 10, 2), ("a", 0, 10, 4)]
    harness.operator.watermark(9)
    assert values(harness) == [("a", 0, 10, 5)]


def test_results_at_intervals_of_event_time(run: Run) -> None:
    window = keyed().window(sl.Tumbling("10ms")).trigger(sl.EventTimeInterval("4ms"))
    harness = opened(run, window.aggregate(uid="w", n=sl.count()))
    harness.operator.process(rows(("a", 1, 1)), 0)
    harness.operator.watermark(3)
    assert values(harness) == []
    harness.operator.process(rows(("a", 2, 1)), 0)
    harness.operator.watermark(5)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(8)
    assert values(harness) == [("a", 0, 10, 2)]
    harness.operator.watermark(MAX_WATERMARK)
    assert values(harness) == [("a", 0, 10, 2)]
    assert len(harness.states.keyed.timers("bigint")) == 0


def test_given_windows_of_the_same_end_are_kept_apart(run: Run) -> None:
    schema = pa.schema([("user", pa.string()), ("time", pa.int64()), ("s", pa.int64()), ("e", pa.int64())])
    stream = keyed(schema).window(sl.GivenWindow("s", "e")).aggregate(uid="w", n=sl.count())
    harness = opened(run, stream)
    harness.operator.process(rows(("a", 0, 0, 10), ("a", 0, 5, 10), ("a", 0, 0, 10), schema=schema), 0)
    harness.operator.watermark(8)
    assert values(harness) == []
    harness.operator.watermark(9)
    assert sorted(values(harness)) == [("a", 0, 10, 2), ("a", 5, 10, 1)]

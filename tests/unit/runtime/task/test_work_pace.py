"""How much a subtask takes at once, for operators of different speed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from snapline.runtime.task.work_pace import WorkPace


def pace(calls: Sequence[tuple[int, float]] = (), *, slices: bool = True) -> WorkPace:
    made = WorkPace(lambda: 0.0, 1000, slices=slices)
    for rows, seconds in calls:
        made.note(rows, seconds)
    return made


def test_nothing_is_merged_or_cut_before_anything_is_known() -> None:
    assert pace().merged_rows == 0
    assert pace().sliced_rows == float("inf")
    assert pace([(0, 1.0)]).merged_rows == 0


def test_rows_are_merged_up_to_10_ms_and_cut_above_50_ms() -> None:
    learned = pace([(100, 0.01)])
    assert learned.merged_rows == pytest.approx(100)
    assert learned.sliced_rows == pytest.approx(500)


def test_nothing_is_cut_where_it_is_of_no_use() -> None:
    assert pace([(100, 10.0)], slices=False).sliced_rows == float("inf")


def test_one_row_is_taken_however_slow_rows_are() -> None:
    assert pace([(1, 10.0)]).sliced_rows == 1


def test_what_takes_no_time_is_merged_without_limit() -> None:
    assert pace([(10, 0.0)]).merged_rows == float("inf")


def call_s(rows: int, fixed_s: float, row_s: float) -> float:
    return fixed_s + row_s * rows


def test_a_call_that_costs_much_without_rows_gets_enough_of_them() -> None:
    """A model that takes 0.1 s for a batch of any size must not get smaller and smaller ones."""
    learned = pace()
    for _ in range(200):
        rows = int(min(8192, learned.sliced_rows))
        learned.note(rows, call_s(rows, 0.1, 1e-7))
    assert learned.sliced_rows > 8192 // 4


def test_pieces_of_slow_rows_stay_at_50_ms_beside_a_small_fixed_part() -> None:
    learned = pace()
    for number in range(200):
        rows = int(min((100, 1000, 4000)[number % 3], learned.sliced_rows))
        learned.note(rows, call_s(rows, 0.001, 0.0004))
    assert 100 <= learned.sliced_rows <= 150


def test_a_pace_that_changes_is_learned_again() -> None:
    learned = pace([(100, 0.01)] * 100 + [(100, 1.0)] * 100)
    assert learned.sliced_rows == pytest.approx(5, rel=0.2)


def test_a_call_is_measured() -> None:
    times = iter([1.0, 1.5])
    learned = WorkPace(lambda: next(times), 1000, slices=True)
    seen: list[tuple[int, int]] = []
    batch = pa.record_batch({"x": [1, 2]})
    learned.run(lambda given, index: seen.append((given.num_rows, index)), batch, 1)
    assert seen == [(2, 1)]
    assert learned.sliced_rows == 1

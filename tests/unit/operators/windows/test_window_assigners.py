"""Which windows rows belong to, and which rows late windows leave without any."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.operators.windows.window_assigners import (
    FAR_MS,
    FixedAssigner,
    GivenAssigner,
    GlobalAssigner,
    WindowAssigner,
    without_late,
)

TIMES = np.arange(-25, 25)


@pytest.mark.parametrize(("size", "every", "offset"), [(10, 10, 0), (10, 10, 3), (10, 5, 0), (10, 4, 1), (2, 5, -1)])
def test_a_row_is_in_all_windows_that_contain_its_time(size: int, every: int, offset: int) -> None:
    rows, starts, ends = FixedAssigner(size, every, offset).assign(TIMES)
    rows = np.arange(len(TIMES)) if rows is None else rows
    assert set((ends - starts).tolist()) == {size}
    found = set(zip(TIMES[rows].tolist(), starts.tolist(), strict=True))
    possible = range(offset - 20 * every, offset + 20 * every, every)
    assert len(found) == len(rows)
    assert found == {(time, start) for time in TIMES.tolist() for start in possible if start <= time < start + size}
    assert (np.diff(rows) >= 0).all()


@pytest.mark.parametrize("assigner", [FixedAssigner(10, 5), GivenAssigner("s", "e"), GlobalAssigner()])
def test_windows_survive_packing(assigner: WindowAssigner) -> None:
    times = (TIMES, TIMES + 7) if assigner.columns else (TIMES,)
    _, starts, ends = assigner.assign(*times)
    packed = assigner.pack(starts, ends)
    assert packed.type == assigner.namespace
    for found, expected in zip(assigner.unpack(packed), (starts, ends), strict=True):
        assert found.tolist() == expected.tolist()


def test_the_global_window_ends_after_all_time() -> None:
    _, starts, ends = GlobalAssigner().assign(np.array([5]))
    assert (starts.tolist(), ends[0] > 2 * FAR_MS, pa.array(ends).null_count) == ([0], True, 0)


def test_a_row_is_dropped_only_if_all_its_windows_are_late() -> None:
    # Row 1 is in no window at all.
    assigned = np.array([0, 0, 2]), np.array([0, 5, 0]), np.array([10, 15, 10])
    (rows, starts, ends), is_dropped = without_late(assigned, np.array([True, False, True]), 3)
    assert rows is not None
    assert (rows.tolist(), starts.tolist(), ends.tolist()) == ([0], [5], [15])
    assert is_dropped.tolist() == [False, False, True]
    (rows, _, _), is_dropped = without_late((None, *assigned[1:]), np.array([True, False, False]), 3)
    assert rows is not None
    assert (rows.tolist(), is_dropped.tolist()) == ([1, 2], [True, False, False])

"""Entries of partitions with changes applied to them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.operators.changes.ranked_entries import RankedEntries, appended_entries, merged_entries


def entries(*rows: tuple[int, bytes, int]) -> RankedEntries:
    groups, codes, counts = zip(*rows, strict=True) if rows else ((), (), ())
    return RankedEntries(
        np.array(groups, dtype=np.int64),
        pa.array(codes, pa.binary()),
        np.array(counts, dtype=np.int64),
        np.arange(len(rows)),
        pa.array([code.decode() for code in codes], pa.string()),
    )


def test_counts_add_up_and_changed_entries_are_known() -> None:
    merged, before, changed = merged_entries(
        entries((0, b"a", 2), (0, b"b", 1), (1, b"a", 1)), entries((0, b"b", -1), (1, b"c", 1))
    )
    found = {
        (int(group), code): (int(old), int(new))
        for group, code, old, new in zip(merged.groups, merged.codes.to_pylist(), before, merged.counts, strict=True)
    }
    assert found == {(0, b"a"): (2, 2), (0, b"b"): (1, 0), (1, b"a"): (1, 1), (1, b"c"): (0, 1)}
    assert {(int(merged.groups[at]), merged.codes[at].as_py()) for at in changed} == {(0, b"b"), (1, b"c")}


def test_new_entries_follow_old_ones() -> None:
    both, before, changed = appended_entries(entries((0, b"a", 1)), entries((0, b"a", 1), (1, b"b", 1)))
    assert (both.counts.tolist(), before.tolist(), changed.tolist()) == ([1, 1, 1], [1, 0, 0], [1, 2])
    assert both.take(np.array([2])).rows.to_pylist() == ["b"]
    assert both.with_counts(np.zeros(3, dtype=np.int64)).counts.tolist() == [0, 0, 0]

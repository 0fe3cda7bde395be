"""Which slots of a cache are hot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.rocksdb.recent_space import RecentSpace

KEY = KeyTypes(pa.int64())


def rows(*keys: int) -> Rows:
    return Rows.of(KEY.encode(pa.array(keys)))


def hottest(space: RecentSpace, most: int, heavy: int | None = None) -> list[int]:
    weights = np.ones(space.size, dtype=np.int64)
    if heavy is not None:
        weights[heavy] = 10
    return [int(word) for word in space.columns()[0].take(space.hottest(weights, most)).words]  # type: ignore[union-attr]


def test_the_last_looked_up_are_the_hottest() -> None:
    space = RecentSpace([pa.int64()])
    rows(0, 1, 2, 3, 4).slots(space, add=True)
    assert hottest(space, 2) == [3, 4], "without stamps the newest are"
    space.epoch = 1
    rows(1, 9).slots(space, add=False)
    assert hottest(space, 1) == [1]
    space.epoch = 2
    rows(0, 7).slots(space, add=True)
    assert hottest(space, 3) == [0, 1, 7]
    assert hottest(space, 0) == []
    space.epoch = 3
    assert space.find_one(rows(2).single(0)) == 2
    assert space.ensure_one(rows(8).single(0)) == 6
    assert hottest(space, 2) == [2, 8]
    space.append(rows(10))
    assert hottest(space, 3) == [2, 8, 10]
    assert hottest(space, 11, heavy=0) == [2, 7, 8, 10], "what would follow is too heavy"


def test_stamps_stay_with_their_slots() -> None:
    space = RecentSpace([pa.int64()])
    space.epoch = 1
    rows(*range(3000)).slots(space, add=True)
    space.epoch = 2
    rows(5, 2999).slots(space, add=True)
    space.keep(np.array([4, 5, 6, 2999]))
    assert hottest(space, 2) == [5, 2999]

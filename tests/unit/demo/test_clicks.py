"""The demo's job: who clicks how often."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from snapline.connectors.rate import Rate
from snapline.contracts.source import ReaderContext
from snapline.demo.clicks import CLICK, USERS, named


def test_few_users_click_far_more_than_others() -> None:
    source = Rate(rows=20_000, users=1000)
    reader = source.reader(ReaderContext("job", "rows", 0, 1))
    for split in source.splits(1):
        reader.add_split(split, None)
    counts: Counter[str] = Counter()
    while isinstance(batch := reader.read(), pa.RecordBatch):
        clicks = named(batch)
        assert clicks.schema == CLICK
        assert clicks.column("id").equals(batch.column("id"))
        counts.update(clicks.column("user").to_pylist())
    assert set(counts) == set(USERS)
    assert counts.total() == 20_000
    assert counts.most_common(1)[0][0] == USERS[0]
    assert counts[USERS[0]] > 4 * counts[USERS[-1]]


def test_an_empty_batch_stays_empty() -> None:
    empty = pa.RecordBatch.from_pylist([], schema=Rate(rows=1).schema)
    assert named(empty).num_rows == 0

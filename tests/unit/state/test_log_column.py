"""Columns of values of any width, in several chunks."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from snapline.state.log_column import LogColumn


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.int64()), pa.struct([("a", pa.string())])])
def test_values_come_back_whichever_chunks_they_are_in(kind: pa.DataType) -> None:
    random = Random(5)
    column = LogColumn(kind)
    kept: dict[int, object] = {}
    column.grow(4096)
    for size in (900, 400, 150, 60, 20, 7, 1, 300):
        slots = np.array(random.sample(range(4096), size))
        plain = [random.choice([str(slot), f"{slot} and more"]) for slot in slots.tolist()]
        values = [[len(text)] if pa.types.is_list(kind) else {"a": text} for text in plain]
        array = pa.array(plain if pa.types.is_string(kind) else values, kind)
        column.scatter(slots, array)
        kept |= dict(zip(slots.tolist(), array.to_pylist(), strict=True))
        wanted = np.array([random.randrange(4096) for _ in range(500)])
        assert column.gather(wanted).to_pylist() == [kept.get(slot) for slot in wanted.tolist()]
        newest = slots[:3]
        assert column.gather(newest).to_pylist() == [kept[slot] for slot in newest.tolist()]
    absent = np.arange(len(wanted)) % 2 == 0
    assert column.gather(wanted, absent).to_pylist() == [
        None if gone else kept.get(slot) for gone, slot in zip(absent, wanted.tolist(), strict=True)
    ]
    assert column.gather(wanted[:0]).to_pylist() == []


def test_nothing_was_ever_put_in() -> None:
    column = LogColumn(pa.string())
    assert column.gather(np.array([3, 5])).to_pylist() == [None, None]

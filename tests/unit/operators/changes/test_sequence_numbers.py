from __future__ import annotations

from typing import Any

import pyarrow as pa

from snapline.operators.changes.sequence_numbers import SequenceNumbers
from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory_backend import MemoryBackend


def test_each_key_has_numbers_of_its_own() -> None:
    options: dict[str, Any] = {"max_parallelism": 8, "key_groups": KeyGroupRange(0, 7), "clock": lambda: 0, "uid": "it"}
    keyed = MemoryBackend(pa.string(), **options)
    numbers = SequenceNumbers(keyed, "next")

    def taken(*rows: str) -> list[int]:
        every = keyed.keys([pa.array(rows, pa.string())])
        lasts, groups = keyed.distinct(every)
        found: list[int] = numbers.take(every.take(lasts), groups).tolist()
        return found

    assert taken("a", "b", "a") == [0, 0, 1]
    assert taken("b", "b", "c", "a") == [1, 2, 0, 2]
    numbers.forget(keyed.keys([pa.array(["b"])]))
    assert taken("b", "a") == [0, 3]
    assert taken() == []

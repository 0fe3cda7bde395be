"""What the cells of maps and lists have in common: each key has its own, and a discarded batch leaves nothing."""

from __future__ import annotations

from typing import Any

import pytest

from snapline.protocol.keygroups import KeyGroupRange
from snapline.state.memory_backend import MemoryBackend

OPTIONS: dict[str, Any] = {"max_parallelism": 128, "key_groups": KeyGroupRange(0, 127), "clock": int}


@pytest.mark.parametrize("is_settled", [True, False])
def test_collections_of_a_batch_are_kept_by_key_until_they_are_discarded(is_settled: bool) -> None:
    backend = MemoryBackend("bigint", **OPTIONS)
    entries, elements = backend.map_state("m", "string", "bigint"), backend.list_state("l", "bigint")
    keys = backend.keys([1, 2, 1])
    for number in range(3):
        backend.select(keys, number)
        entries.put("n", number)
        elements.add(number)
    if not is_settled:
        backend.selection.discard()
    backend.select_none()
    found = []
    for number in range(2):
        backend.select(keys, number)
        found.append((entries.get("n"), list(elements.get() or ())))
    expected: list[Any] = [(2, [0, 2]), (1, [1])] if is_settled else [(None, []), (None, [])]
    assert found == expected

"""Sharing a limit of memory among backends."""

from __future__ import annotations

from snapline.state.rocksdb.state_memory import StateMemory, process_memory

MB = 1 << 20


def test_one_backend_may_have_what_the_others_leave_and_never_less_than_its_share() -> None:
    memory = StateMemory(120 * MB)
    assert memory.tables_bytes == 40 * MB
    assert memory.excess("a", 40 * MB) == 1
    memory.take("a", 30 * MB)
    assert memory.excess("a", 30 * MB) == 0.75
    assert memory.excess("b", 10 * MB) == 0.5, "its share is 20 MB"
    memory.take("b", 5 * MB)
    assert memory.excess("a", 35 * MB) == 1, "the other has 5 MB"
    memory.take("b", 20 * MB)
    assert memory.excess("a", 30 * MB) == 1.5
    assert memory.used_bytes >= 50 * MB
    memory.leave("b")
    assert memory.excess("a", 30 * MB) == 0.75


def test_a_process_has_one_memory_for_each_limit() -> None:
    assert process_memory(64 * MB) is process_memory(64 * MB)
    assert process_memory(64 * MB).limit_bytes == 64 * MB

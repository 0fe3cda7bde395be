"""Packed subtasks are what they were, in less memory."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapline.protocol.statistics.checkpoint_records import NO_ACK, SubtaskMetrics, SubtaskStatistics
from snapline.protocol.statistics.packed_subtasks import PackedSubtasks

_NUMBERS = st.integers(-1, 2**62)
_METRICS = st.builds(
    SubtaskMetrics,
    **{field.name: st.booleans() if field.type == "bool" else _NUMBERS for field in fields(SubtaskMetrics)},
)
_SUBTASKS = st.lists(
    st.builds(
        SubtaskStatistics,
        index=st.integers(0, 2**31),
        ack_ms=_NUMBERS,
        end_to_end_duration_ms=_NUMBERS,
        metrics=st.none() | _METRICS,
        commit_ms=_NUMBERS,
    ),
    max_size=20,
)


@given(_SUBTASKS)
def test_what_is_packed_comes_out_as_it_was(subtasks: list[SubtaskStatistics]) -> None:
    packed = PackedSubtasks(subtasks)
    assert list(packed) == subtasks
    assert packed == tuple(subtasks)
    assert len(packed) == len(subtasks)
    assert packed.max_commit_ms == max((subtask.commit_ms for subtask in subtasks), default=NO_ACK)


def test_single_ones_and_slices_can_be_read() -> None:
    subtasks = [SubtaskStatistics(index, 10 * index) for index in range(5)]
    packed = PackedSubtasks(subtasks)
    assert (packed[2], packed[-1], packed[1:3]) == (subtasks[2], subtasks[4], tuple(subtasks[1:3]))
    with pytest.raises(IndexError):
        packed[5]


def test_packing_takes_less_memory() -> None:
    metrics = SubtaskMetrics(checkpointed_bytes=1000, sync_ms=2, async_ms=30)
    subtasks = [
        SubtaskStatistics(index, 1_700_000_000_000 + index % 7, 40 + index % 7, metrics) for index in range(1000)
    ]
    assert PackedSubtasks(subtasks).size_bytes < 20_000


def test_other_things_are_not_equal_and_nothing_is_hashable() -> None:
    packed = PackedSubtasks([SubtaskStatistics(0)])
    assert packed != 1
    assert packed != PackedSubtasks([])
    with pytest.raises(TypeError):
        hash(packed)

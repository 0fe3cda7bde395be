"""The handler that never aligns."""

from __future__ import annotations

import pytest

from snapline.devtools.replay.unaligned_handler import UNALIGNED, UnalignedHandler
from snapline.protocol.barriers.barrier_events import (
    BarrierAnnounced,
    BarrierReceived,
    BlockChannel,
    CheckpointTriggered,
    PrioritizeBarrier,
    ResumeChannel,
    StartCapture,
)
from snapline.types import Barrier, BarrierKind


@pytest.mark.parametrize("kind", [BarrierKind.ALIGNED, BarrierKind.FORCED_ALIGNED])
def test_an_aligned_barrier_blocks_its_channel_and_triggers_all_the_same(kind: BarrierKind) -> None:
    handler = UnalignedHandler(2)
    barrier = Barrier(1, 0, kind)
    assert handler.handle(BarrierReceived(0, barrier), 0) == [
        BlockChannel(0),
        StartCapture(1),
        CheckpointTriggered(barrier.as_unaligned(), 0),
    ]
    assert ResumeChannel(0) in handler.handle(BarrierReceived(1, barrier.as_unaligned()), 0)


def test_an_announced_barrier_overtakes_data_at_once() -> None:
    announced = BarrierAnnounced(0, Barrier(1, 0, BarrierKind.ALIGNED_WITH_TIMEOUT, 10))
    assert UnalignedHandler(2).handle(announced, 0)[-1] == PrioritizeBarrier(0, 1)


def test_it_never_ends() -> None:
    assert UNALIGNED.final_states == frozenset()

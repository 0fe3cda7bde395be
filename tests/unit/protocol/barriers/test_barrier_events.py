"""Which handler and which kind of barrier a job uses, and where barriers always align."""

from __future__ import annotations

import pytest

from snapline.config import Checkpoints
from snapline.protocol.barriers.barrier_events import (
    HandlerMode,
    aligned_only_vertices,
    barrier_kind,
    handler_mode,
    new_barrier,
)
from snapline.types import Barrier, BarrierKind, Partitioning, SnapshotKind

ALIGNED, UNALIGNED = Checkpoints(), Checkpoints(unaligned=True)
TIMED = Checkpoints(unaligned=True, aligned_timeout="2s")
AT_LEAST_ONCE = Checkpoints(mode="AT_LEAST_ONCE")


@pytest.mark.parametrize(
    ("config", "handler", "kind"),
    [
        (ALIGNED, HandlerMode.ALIGNED, BarrierKind.ALIGNED),
        (UNALIGNED, HandlerMode.ALTERNATING, BarrierKind.UNALIGNED),
        (TIMED, HandlerMode.ALTERNATING, BarrierKind.ALIGNED_WITH_TIMEOUT),
        (AT_LEAST_ONCE, HandlerMode.TRACKER, BarrierKind.ALIGNED),
    ],
)
def test_settings_choose_handler_and_barrier(config: Checkpoints, handler: HandlerMode, kind: BarrierKind) -> None:
    assert handler_mode(config) is handler
    assert barrier_kind(config, SnapshotKind.CHECKPOINT) is kind
    assert barrier_kind(config, SnapshotKind.SAVEPOINT) is BarrierKind.ALIGNED
    assert barrier_kind(config, SnapshotKind.SYNC_SAVEPOINT) is BarrierKind.ALIGNED


def test_only_a_barrier_with_timeout_says_how_long() -> None:
    new = new_barrier(TIMED, 3, 10, SnapshotKind.CHECKPOINT, drain=False, full=True)
    assert new == Barrier(3, 10, BarrierKind.ALIGNED_WITH_TIMEOUT, 2_000, full=True)
    savepoint = new_barrier(TIMED, 4, 11, SnapshotKind.SYNC_SAVEPOINT, drain=True, full=True)
    assert savepoint == Barrier(4, 11, snapshot=SnapshotKind.SYNC_SAVEPOINT, drain=True, full=True)


def test_one_pointwise_or_broadcast_input_aligns_all_inputs() -> None:
    edges = [
        ("a", "joined", Partitioning.HASH),
        ("b", "joined", Partitioning.BROADCAST),
        ("a", "mapped", Partitioning.FORWARD),
        ("a", "counted", Partitioning.HASH),
        ("a", "spread", Partitioning.REBALANCE),
    ]
    assert aligned_only_vertices(edges) == {"joined", "mapped"}

"""A job of many slots on the simulator: what nobody has the machines for."""

from __future__ import annotations

from snapline.devtools.simulator.scenario import (
    STORE,
    Ending,
    Fault,
    Handler,
    Role,
    Run,
    Scenario,
    SimEdge,
    SimVertex,
    Topology,
)
from snapline.types import ClaimMode, ExternalizedRetention, Partitioning

EXCHANGING_SUBTASKS = 8
"""Subtasks of the vertices that exchange data: in simulated time, a subtask takes a turn for each barrier it reads."""

STEPS_PER_SLOT = 2_000


def large_scenario(slots: int, seed: int = 1, *, faults: frozenset[Fault] = frozenset()) -> Scenario:
    """A pipeline in each slot, and one over a few slots with exchanges and keyed state; a checkpoint each second."""
    some = min(EXCHANGING_SUBTASKS, slots)
    parallelism = {"source-0": slots, "sink-0": slots}
    parallelism |= {"source-10000": some, "op-0-1": some, "sink-1": some}
    topology = Topology(
        (
            SimVertex("source-0", Role.SOURCE, (2,) * slots),
            SimVertex("source-10000", Role.SOURCE, (30,) * some),
            SimVertex("op-0-1", Role.KEYED),
            SimVertex("sink-0", Role.SINK),
            SimVertex("sink-1", Role.SINK),
        ),
        (
            SimEdge("source-0->sink-0", "source-0", "sink-0", Partitioning.FORWARD),
            SimEdge("source-10000->op-0-1", "source-10000", "op-0-1", Partitioning.HASH),
            SimEdge("op-0-1->sink-1", "op-0-1", "sink-1", Partitioning.REBALANCE),
        ),
    )
    return Scenario(
        seed,
        topology,
        Handler.ALIGNED,
        {
            "interval": "1s",
            "timeout": "10s",
            "storage": f"{STORE}/checkpoints",
            "retained": 1,
            "externalized": ExternalizedRetention.DELETE_ON_CANCELLATION,
            "history": 3,
        },
        (Run(parallelism, Ending.FINISH, ClaimMode.NO_CLAIM, 0),),
        faults,
        quiet_from_ms=2000,
        slow_vertices=frozenset(),
        buffered=frozenset(),
        watermarked=frozenset(),
        has_hook=False,
        coordinated=frozenset(),
    )

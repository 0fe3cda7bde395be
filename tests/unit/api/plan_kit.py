"""Plans for tests of drawings."""

from __future__ import annotations

from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView
from snapline.types import Partitioning


def vertex(uid: str, *operators: OperatorView, parallelism: int = 1) -> VertexView:
    chain = operators or (OperatorView(uid, "map"),)
    return VertexView(uid, " -> ".join(operator.name for operator in chain), parallelism, 128, chain)


def plan_of(*edges: str) -> PlanView:
    """A plan of forward edges such as "a>b"; vertices with outputs first."""
    pairs = [tuple(edge.split(">")) for edge in edges]
    names = dict.fromkeys([*(source for source, _ in pairs), *(target for _, target in pairs)])
    return PlanView(
        tuple(map(vertex, names)), tuple(EdgeView(source, target, Partitioning.FORWARD) for source, target in pairs)
    )


def clicks_plan() -> PlanView:
    """Clicks are counted per user; bad ones go to another vertex."""
    columns = (("user", "string"), ("time", "timestamp[ms]"))
    counts = (("user", "string"), ("n", "int64"))
    return PlanView(
        (
            vertex("clicks", OperatorView("clicks", "Rate", True, False, True, (), columns), parallelism=2),
            vertex("bad", OperatorView("bad", "Print", False, True)),
            vertex(
                "per-user",
                OperatorView("per-user", "aggregate", False, False, True, ("user",), counts),
                OperatorView("counts", "Files", False, True),
                parallelism=4,
            ),
        ),
        (
            EdgeView("clicks", "bad", Partitioning.REBALANCE, (), "dead_letters"),
            EdgeView("clicks", "per-user", Partitioning.HASH, ("user",)),
        ),
    )

"""A scenario's job for the production classes: its spec and its shipment."""

from __future__ import annotations

from collections.abc import Mapping

from snapline.config import Execution, ExponentialDelay
from snapline.contracts.source import Watermarks
from snapline.devtools.simulator.records import SCHEMA
from snapline.devtools.simulator.scenario import MAX_PARALLELISM, Role, Run, Scenario, SimEdge, SimVertex
from snapline.devtools.simulator.sim_operators import Audit, SimOperator, SimSink, SimSource, Surroundings
from snapline.graph.execution_plan import ExecutionPlan, Key, PlannedEdge, PlannedOperator, PlannedVertex
from snapline.graph.job_spec import JobSpec
from snapline.graph.shipment import Shipment
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import ChainMember, SourceHead
from snapline.types import Partitioning

EXECUTION = Execution(
    batch_size="1KB",
    flush_timeout=0,
    channel_memory="1KB",
    heartbeat_interval="700ms",
    heartbeat_timeout="1500ms",
    start_timeout="8s",
    cancel_timeout="600ms",
    latency_interval="3s",
    metrics_interval="2s",
)
RESTART = ExponentialDelay(initial_backoff="50ms", max_backoff="400ms", reset_threshold="10s")


class SimShipment(Shipment):
    """Creates the operators of a simulated job instead of unpickling them."""

    world: Surroundings
    scenario: Scenario

    def make_operators(self, vertex_id: str) -> list[ChainMember]:
        return make_members(self.world, self.scenario, vertex_id)


def make_spec(world: Surroundings, scenario: Scenario, job: str, run: Run, restore_from: str | None) -> JobSpec:
    return JobSpec(
        job_id=job,
        name=job,
        plan=make_plan(scenario, run.parallelism),
        sources={
            vertex.id: SimSource(world, vertex) for vertex in scenario.topology.vertices if vertex.role is Role.SOURCE
        },
        hooks={Audit.name: Audit(world.kernel)} if scenario.has_hook else {},
        checkpoints=scenario.checkpoints(run, restore_from),
        execution=EXECUTION,
        restart=RESTART,
        shipment=b"",
        coordinated={uid: SimOperator.with_ledger(world) for uid in sorted(scenario.coordinated)},
    )


def make_shipment(world: Surroundings, scenario: Scenario, spec: JobSpec) -> SimShipment:
    shipment = SimShipment(
        spec.job_id, spec.plan, spec.checkpoints, spec.execution, spec.takes_last_checkpoint, operators={}
    )
    object.__setattr__(shipment, "world", world)
    object.__setattr__(shipment, "scenario", scenario)
    return shipment


def make_plan(scenario: Scenario, parallelism: Mapping[str, int]) -> ExecutionPlan:
    topology = scenario.topology
    vertices = tuple(
        PlannedVertex(
            vertex.id,
            vertex.id,
            parallelism[vertex.id],
            max(MAX_PARALLELISM, parallelism[vertex.id]),
            _planned(vertex, is_coordinated=vertex.id in scenario.coordinated),
        )
        for vertex in topology.vertices
    )
    edges = tuple(
        PlannedEdge(
            edge.id,
            edge.source,
            edge.target,
            _partitioning(edge, parallelism),
            ("key",) if edge.partitioning is Partitioning.HASH else (),
            SCHEMA,
            input_index=topology.inputs(edge.target).index(edge),
        )
        for edge in topology.edges
    )
    return ExecutionPlan(vertices, edges)


def _partitioning(edge: SimEdge, parallelism: Mapping[str, int]) -> Partitioning:
    """As the planner does: a forward edge needs the same parallelism at both ends."""
    if edge.partitioning is Partitioning.FORWARD and parallelism[edge.source] != parallelism[edge.target]:
        return Partitioning.REBALANCE
    return edge.partitioning


def _planned(vertex: SimVertex, *, is_coordinated: bool) -> tuple[PlannedOperator, ...]:
    role, is_source = vertex.role, vertex.role is Role.SOURCE
    key = Key(("key",), SCHEMA.field("key").type) if role is Role.KEYED else None
    head = PlannedOperator(
        vertex.id,
        role.value,
        key,
        SCHEMA,
        has_state=True,
        has_coordinator=is_source or is_coordinated,
        is_source=is_source,
    )
    if role is not Role.SINK:
        return (head,)
    return head, PlannedOperator(f"{vertex.id}/commit", "commit", None, None, has_state=True, is_sink=True)


def make_members(world: Surroundings, scenario: Scenario, vertex_id: str) -> list[ChainMember]:
    topology = scenario.topology
    vertex = next(vertex for vertex in topology.vertices if vertex.id == vertex_id)
    if vertex.role is Role.SOURCE:
        watermarks = Watermarks("time", idle_after="300ms") if vertex_id in scenario.watermarked else None
        return [SourceHead(SimSource(world, vertex), watermarks)]
    broadcast = frozenset(
        number for number, edge in enumerate(topology.inputs(vertex_id)) if edge.partitioning is Partitioning.BROADCAST
    )
    is_buffered = vertex_id in scenario.buffered and vertex.role is not Role.SINK
    is_coordinated = vertex_id in scenario.coordinated
    members: list[ChainMember] = [
        SimOperator(world, vertex.role, broadcast, buffered=is_buffered, coordinated=is_coordinated)
    ]
    if vertex.role is Role.SINK:
        members.append(SinkOperator(SimSink(world)))
    return members

"""Turns a job as the user built it into one that is checked, planned and packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from snapline.api.graph_nodes import Input, Node
from snapline.api.job import Job
from snapline.config import NO_MONITORING
from snapline.contracts.master_hook import MasterHook
from snapline.contracts.operator import Operator
from snapline.contracts.schemas import key_type
from snapline.errors import ConfigurationError
from snapline.graph.execution_plan import ExecutionPlan, Key, PlannedEdge, PlannedOperator, PlannedVertex, edge_id
from snapline.graph.job_spec import JobSpec, takes_last_checkpoint
from snapline.graph.logical_graph import check_dead_letters, check_ends, in_order, parallelisms, uids
from snapline.graph.requirements import check_packages, check_sinks
from snapline.graph.setting_conflicts import check_settings
from snapline.graph.shipment import pack
from snapline.operators.sink_operator import SinkOperator
from snapline.operators.source_head import ChainMember, SourceHead
from snapline.types import Partitioning


def make_spec(job: Job) -> JobSpec:
    """The job, ready to run, under the id of a new start; `ConfigurationError` says what is wrong."""
    check_settings(job, job.nodes)
    planned = plan(job)
    check_packages(job.execution)
    check_sinks((uid, node.operator) for node, uid in planned.uids.items())
    job_id = job.id_for_start()
    for node in planned.uids:
        if isinstance(node.operator, SinkOperator):
            node.operator.sink.starting(job_id)
    return JobSpec(
        job_id=job_id,
        name=job.name,
        plan=planned.plan,
        sources={uid: node.source for node, uid in planned.uids.items() if node.source is not None},
        coordinated={
            uid: node.operator
            for node, uid in planned.uids.items()
            if node.has_coordinator and isinstance(node.operator, Operator)
        },
        sinks={
            uid: node.operator.sink for node, uid in planned.uids.items() if isinstance(node.operator, SinkOperator)
        },
        watermarks={
            uid: node.operator.watermarks
            for node, uid in planned.uids.items()
            if isinstance(node.operator, SourceHead) and node.operator.watermarks is not None
        },
        hooks=hooks_by_name(job.hooks),
        checkpoints=job.checkpoints,
        execution=job.execution,
        restart=job.restart,
        monitoring=job.monitoring or NO_MONITORING,
        shipment=pack(
            job_id,
            planned.plan,
            job.checkpoints,
            job.execution,
            takes_last_checkpoint(job.checkpoints, job.restart),
            planned.operators,
            job.name,
        ),
    )


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A plan, the operators of each vertex, and the uid of each node of the logical graph."""

    plan: ExecutionPlan
    operators: Mapping[str, tuple[ChainMember, ...]]
    uids: Mapping[Node, str]


def plan(job: Job) -> PlannedJob:
    """Check the logical graph, chain what can run in one thread, and name everything.

    The same job gives the same plan in every process and at every start.
    """
    nodes = in_order(job.nodes)
    check_ends(nodes)
    check_dead_letters(nodes)
    names = uids(nodes)
    counts = parallelisms(job, nodes)
    chains = _chains(nodes, counts)
    vertices = tuple(_vertex(job, chain, names, counts) for chain in chains)
    edges = _edges(chains, names, counts)
    operators = {names[chain[0]]: tuple(node.operator for node in chain) for chain in chains}
    return PlannedJob(ExecutionPlan(vertices, edges), operators, names)


def _chains(nodes: list[Node], counts: Mapping[Node, int]) -> list[list[Node]]:
    """The nodes of each vertex, from head to tail. Only a tail has edges to other vertices."""
    outputs = Counter(item.node for node in nodes for item in node.inputs)
    chains: list[list[Node]] = []
    chain_of: dict[Node, list[Node]] = {}
    for node in nodes:
        chain: list[Node] = []
        if len(node.inputs) == 1:
            (only,) = node.inputs
            is_alone = outputs[only.node] == 1 and not only.output
            if is_alone and _partitioning(only, node, counts) is Partitioning.FORWARD:
                chain = chain_of[only.node]
        if not chain:
            chains.append(chain)
        chain.append(node)
        chain_of[node] = chain
    return chains


def _partitioning(item: Input, target: Node, counts: Mapping[Node, int]) -> Partitioning:
    """The partitioning in effect: a forward edge needs the same parallelism at both ends."""
    if item.partitioning is Partitioning.FORWARD and counts[item.node] != counts[target]:
        return Partitioning.REBALANCE
    return item.partitioning


def _vertex(job: Job, chain: list[Node], names: Mapping[Node, str], counts: Mapping[Node, int]) -> PlannedVertex:
    head = chain[0]
    return PlannedVertex(
        id=names[head],
        name=" -> ".join(node.name for node in chain),
        parallelism=counts[head],
        max_parallelism=job.max_parallelism,
        operators=tuple(_operator(node, names[node]) for node in chain),
    )


def _operator(node: Node, uid: str) -> PlannedOperator:
    return PlannedOperator(
        uid,
        node.name,
        _key(node),
        node.schema,
        has_state=node.has_state,
        has_coordinator=node.has_coordinator,
        is_sink=node.is_sink,
        is_source=node.source is not None,
        makes_watermarks=isinstance(node.operator, Operator) and node.operator.makes_watermarks,
    )


def _key(node: Node) -> Key | None:
    """The key of a node: that of its keyed inputs, which must agree on the type."""
    if not node.key_columns:
        return None
    types = [key_type(item.schema, item.key_columns) for item in node.inputs if item.partitioning is Partitioning.HASH]
    if any(_column_types(kind) != _column_types(types[0]) for kind in types):
        raise ConfigurationError(
            f"the inputs of {node} are keyed by different types: {', '.join(map(str, types))}; cast them with "
            "with_columns() before key_by()"
        )
    return Key(node.key_columns, types[0])


def _column_types(key: pa.DataType) -> list[pa.DataType]:
    return [field.type for field in key] if pa.types.is_struct(key) else [key]


def _edges(chains: list[list[Node]], names: Mapping[Node, str], counts: Mapping[Node, int]) -> tuple[PlannedEdge, ...]:
    head_of = {node: chain[0] for chain in chains for node in chain}
    edges: list[PlannedEdge] = []
    seen: Counter[str] = Counter()
    for chain in chains:
        head = chain[0]
        for item in head.inputs:
            between = edge_id(names[item.node], names[head], item.output)
            seen[between] += 1
            edges.append(
                PlannedEdge(
                    id=between if seen[between] == 1 else f"{between}#{seen[between]}",
                    source=names[head_of[item.node]],
                    target=names[head],
                    partitioning=_partitioning(item, head, counts),
                    key_columns=item.key_columns,
                    schema=item.schema,
                    input_index=item.index,
                    output=item.output,
                )
            )
    return tuple(edges)


def hooks_by_name(hooks: tuple[MasterHook, ...]) -> dict[str, MasterHook]:
    """The hooks by their names; `ConfigurationError` if they have none, or the same."""
    named: dict[str, MasterHook] = {}
    for hook in hooks:
        name = getattr(hook, "name", None)
        if not isinstance(hook, MasterHook) or not isinstance(name, str) or not name:
            raise ConfigurationError(f"{hook!r} cannot be a hook; give a MasterHook with a `name`")
        if name in named:
            raise ConfigurationError(f"two hooks have the name {name!r}; give each its own")
        named[name] = hook
    return named

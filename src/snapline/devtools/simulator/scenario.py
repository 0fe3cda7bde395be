"""What one seed plays: a job, its settings, its faults, and what its user does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from snapline.config import CheckpointMode, Checkpoints
from snapline.types import ClaimMode, ExternalizedRetention, Partitioning

MAX_PARALLELISM = 8
_EVEN_EDGES = 0.7
"""How many of the forward edges have the same parallelism at both ends."""

STORE = "memory://sim"
KEYS = 24


class Handler(Enum):
    """How the subtasks of a job handle barriers."""

    ALIGNED = "aligned"
    UNALIGNED = "unaligned"
    ALTERNATING = "alternating"
    TRACKER = "tracker"


class Role(Enum):
    """What a simulated operator does with records; all but sinks pass them on."""

    SOURCE = "source"
    SPLIT_LIST = "split list"
    UNION_LIST = "union list"
    KEYED = "keyed"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class SimEdge:
    """Data flows from one vertex to another. Records of a broadcast edge are kept but not passed on."""

    id: str
    source: str
    target: str
    partitioning: Partitioning


@dataclass(frozen=True, slots=True)
class SimVertex:
    """A vertex without its parallelism, which may change between runs of the job."""

    id: str
    role: Role
    splits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The job: vertices from sources to sinks, and edges."""

    vertices: tuple[SimVertex, ...]
    edges: tuple[SimEdge, ...]

    def inputs(self, vertex: str) -> list[SimEdge]:
        return [edge for edge in self.edges if edge.target == vertex]

    def outputs(self, vertex: str) -> list[SimEdge]:
        return [edge for edge in self.edges if edge.source == vertex]


class Fault(Enum):
    """What can go wrong."""

    SUBTASK_CRASH = "subtask crash"
    SLOT_CRASH = "slot crash"
    DRIVER_CRASH = "driver crash"
    TWO_CRASHES = "two crashes in a row"
    MESSAGE_LOST = "message lost"
    MESSAGE_LATE = "message late"
    MESSAGE_DOUBLED = "message doubled"
    STORAGE_SLOW = "storage slow"
    STORAGE_FAILS = "storage fails"
    METADATA_FAILS = "storage fails for metadata"
    ZOMBIE_SLOT = "zombie slot"
    ZOMBIE_DRIVER = "zombie driver"
    CLOCK_SET = "clock set"
    COMMIT_FAILS_ONCE = "commit fails once"
    COMMIT_FAILS_ALWAYS = "commit fails until the faults stop"
    COMMIT_ANSWER_LOST = "commit succeeds without its answer"
    BROKEN_CODE = "code broken until the job has failed"
    REGION_CRASH = "crash of a region beside another"


class Ending(Enum):
    """How one run of the job ends, and what the next one starts from."""

    FINISH = "finish"
    STOP = "stop with savepoint"
    STOP_DRAIN = "stop with savepoint and drain"
    CANCEL_AND_RESTORE_CHECKPOINT = "restore latest checkpoint of a cancelled job"
    CANCEL_AND_RESTORE_SAVEPOINT = "restore savepoint"
    CANCEL_AND_RESTORE_OLDER_SAVEPOINT = "restore older savepoint"


@dataclass(frozen=True, slots=True)
class Run:
    """One submission of the job, from its start to `ending`."""

    parallelism: dict[str, int]
    ending: Ending
    claim_mode: ClaimMode
    user_acts_at_ms: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything about a seed that is decided before the first step.

    `slow_vertices` have long turns, `buffered` ones hold records back for a while, `watermarked` sources have event
    time, `coordinated` operators report each record to a coordinator on the driver.
    """

    seed: int
    topology: Topology
    mode: Handler
    settings: Mapping[str, Any]
    runs: tuple[Run, ...]
    faults: frozenset[Fault]
    quiet_from_ms: int
    slow_vertices: frozenset[str]
    buffered: frozenset[str]
    watermarked: frozenset[str]
    has_hook: bool
    coordinated: frozenset[str]

    @property
    def is_exactly_once(self) -> bool:
        return self.mode is not Handler.TRACKER

    def checkpoints(self, run: Run, restore_from: str | None = None) -> Checkpoints:
        """Returns the settings of one run."""
        return Checkpoints(**self.settings, claim_mode=run.claim_mode, restore_from=restore_from)


_FAULT_GROUPS: tuple[tuple[Fault, ...], ...] = (
    (),
    (Fault.SUBTASK_CRASH,),
    (Fault.SLOT_CRASH,),
    (Fault.DRIVER_CRASH,),
    (Fault.TWO_CRASHES,),
    (Fault.ZOMBIE_SLOT,),
    (Fault.ZOMBIE_DRIVER,),
    (Fault.ZOMBIE_DRIVER,),
)
_MINOR_FAULTS = (
    Fault.MESSAGE_LOST,
    Fault.MESSAGE_LATE,
    Fault.MESSAGE_DOUBLED,
    Fault.STORAGE_SLOW,
    Fault.STORAGE_FAILS,
    Fault.METADATA_FAILS,
    Fault.COMMIT_FAILS_ONCE,
    Fault.COMMIT_FAILS_ALWAYS,
    Fault.COMMIT_ANSWER_LOST,
)


_BROKEN_SHARE = 0.06
_REGIONS_SHARE = 0.1


def make_scenario(seed: int, handler: Handler | None = None, fault: Fault | None = None) -> Scenario:
    """The scenario of a seed; `handler` overrides the barrier handler, and `fault` is there besides its own."""
    rng = random.Random(f"scenario-{seed}")  # noqa: S311  # a seed repeats it; no secret
    mode = rng.choice(list(Handler))
    mode = handler if handler is not None else mode
    topology = _make_topology(rng)
    faults: set[Fault] = set()
    for _ in range(rng.choice((1, 2, 2))):
        faults.update(rng.choice(_FAULT_GROUPS))
    faults.update(rng.sample(_MINOR_FAULTS, rng.choice((0, 1, 1, 2, 3))))
    if random.Random(f"poison-{seed}").random() < _BROKEN_SHARE:  # noqa: S311  # it leaves other scenarios as they are
        faults.add(Fault.BROKEN_CODE)
    beside = random.Random(f"beside-{seed}")  # noqa: S311  # as above
    if beside.random() < _REGIONS_SHARE:
        faults.add(Fault.REGION_CRASH)
    if fault is not None:
        faults.add(fault)
    if Fault.REGION_CRASH in faults:
        topology = _beside(topology, _make_topology(beside))
    uneven = random.Random(f"uneven-{seed}")  # noqa: S311  # as above
    runs = _make_runs(rng, uneven, topology)
    incremental = rng.random() < 0.4
    policy = rng.choice(list(ExternalizedRetention))
    if any(run.ending is Ending.CANCEL_AND_RESTORE_CHECKPOINT for run in runs):
        policy = ExternalizedRetention.RETAIN_ON_CANCELLATION
    if Fault.BROKEN_CODE in faults and policy is ExternalizedRetention.NO_EXTERNALIZED:
        policy = ExternalizedRetention.DELETE_ON_CANCELLATION  # else the job would begin anew once it is mended
    settings = _make_settings(rng, mode, policy, incremental=incremental)
    slow = frozenset(vertex.id for vertex in topology.vertices if rng.random() < 0.5)
    if rng.random() < 0.3:
        faults.add(Fault.CLOCK_SET)
    if settings["unaligned"] and any(run.ending is Ending.CANCEL_AND_RESTORE_CHECKPOINT for run in runs):
        # Few checkpoints have in-flight data that several subtasks must share out, unless there is much of it.
        slow |= {edge.target for edge in topology.edges if edge.partitioning is Partitioning.HASH}
        vertices = tuple(replace(vertex, splits=tuple(3 * n for n in vertex.splits)) for vertex in topology.vertices)
        topology = replace(topology, vertices=vertices)
    return Scenario(
        seed,
        topology,
        mode,
        settings,
        runs,
        frozenset(faults),
        quiet_from_ms=rng.randint(1000, 3000) + 1200 * (len(runs) - 1),
        slow_vertices=slow,
        buffered=frozenset(vertex.id for vertex in topology.vertices if rng.random() < 0.3),
        watermarked=frozenset(vertex.id for vertex in topology.vertices if rng.random() < 0.5),
        has_hook=rng.random() < (0.1 if Fault.REGION_CRASH in faults else 0.5),
        coordinated=frozenset(
            vertex.id
            for vertex in topology.vertices
            if vertex.role not in (Role.SOURCE, Role.SINK) and rng.random() < 0.4
        ),
    )


def _make_settings(
    rng: random.Random, mode: Handler, policy: ExternalizedRetention, *, incremental: bool
) -> dict[str, Any]:
    unaligned = mode in (Handler.UNALIGNED, Handler.ALTERNATING)
    settings = {
        "interval": f"{rng.randint(150, 600)}ms",
        "timeout": f"{rng.randint(1500, 4000)}ms",
        "min_pause": f"{rng.randint(10, 200)}ms" if rng.random() < 0.3 else 0,
        "mode": CheckpointMode.EXACTLY_ONCE if mode is not Handler.TRACKER else CheckpointMode.AT_LEAST_ONCE,
        "unaligned": unaligned,
        "aligned_timeout": f"{rng.randint(10, 250)}ms" if mode is Handler.ALTERNATING else 0,
        "max_concurrent": 1 if unaligned else rng.choice((1, 1, 2)),
        "retained": rng.choice((1, 1, 2)),
        "incremental": incremental,
        "inline_threshold": rng.choice((0, "20KB")),
        "pause_sources_until_first": rng.random() < 0.1,
        "storage": f"{STORE}/checkpoints",
        "savepoint_dir": f"{STORE}/savepoints",
        "externalized": policy,
        "history": 3,
        "asynchronous": rng.random() < 0.85,
    }
    if settings["min_pause"]:
        settings["max_concurrent"] = 1
    return settings


def _make_topology(rng: random.Random) -> Topology:
    """One to four layers from several sources to their sinks; every vertex is reached and leads somewhere."""
    vertices: list[SimVertex] = []
    edges: list[SimEdge] = []

    def connect(source: str, target: str, partitioning: Partitioning) -> None:
        edges.append(SimEdge(f"{source}->{target}", source, target, partitioning))

    sources = [f"source-{number}" for number in range(rng.choice((1, 1, 2, 2, 3)))]
    for name in sources:
        splits = tuple(rng.randint(2, 5) for _ in range(rng.randint(1, 3)))
        vertices.append(SimVertex(name, Role.SOURCE, splits))
    open_ends = list(sources)
    for layer in range(rng.randint(0, 3)):
        width = 1 if len(open_ends) < 3 else 2
        next_ends: list[str] = []
        for number in range(width):
            name = f"op-{layer}-{number}"
            role = rng.choice((Role.SPLIT_LIST, Role.UNION_LIST, Role.KEYED, Role.KEYED))
            inputs = [open_ends.pop(rng.randrange(len(open_ends)))]
            if open_ends and (number == width - 1 or rng.random() < 0.6):
                inputs.append(open_ends.pop(rng.randrange(len(open_ends))))
            vertices.append(SimVertex(name, role))
            for position, upstream in enumerate(inputs):
                connect(upstream, name, _pick_partitioning(rng, role, may_broadcast=position > 0))
            next_ends.append(name)
        open_ends.extend(next_ends)
    _add_sinks(rng, open_ends, vertices, connect)
    return Topology(tuple(vertices), tuple(edges))


def _beside(one: Topology, other: Topology) -> Topology:
    """Both in one job, with no edge between them."""
    ahead = sum(vertex.role is Role.SOURCE for vertex in one.vertices)

    def renamed(vertex: str) -> str:
        kind, _, number = vertex.partition("-")
        return f"{kind}-{ahead + int(number)}" if kind == "source" else f"{vertex}-beside"

    vertices = [replace(vertex, id=renamed(vertex.id)) for vertex in other.vertices]
    edges = [
        SimEdge(f"{source}->{target}", source, target, edge.partitioning)
        for edge in other.edges
        for source, target in [(renamed(edge.source), renamed(edge.target))]
    ]
    return Topology((*one.vertices, *vertices), (*one.edges, *edges))


def _add_sinks(rng: random.Random, open_ends: list[str], vertices: list[SimVertex], connect: object) -> None:
    assert callable(connect)
    remaining = list(open_ends)
    number = 0
    while remaining:
        name = f"sink-{number}"
        number += 1
        vertices.append(SimVertex(name, Role.SINK))
        inputs = [remaining.pop()]
        if remaining and rng.random() < 0.5:
            inputs.append(remaining.pop())
        for upstream in inputs:
            connect(upstream, name, _pick_partitioning(rng, Role.SINK, may_broadcast=False))
    if rng.random() < 0.25:
        vertices.append(SimVertex(f"sink-{number}", Role.SINK))
        upstream = rng.choice([vertex.id for vertex in vertices if vertex.role is not Role.SINK])
        connect(upstream, f"sink-{number}", _pick_partitioning(rng, Role.SINK, may_broadcast=False))


def _pick_partitioning(rng: random.Random, role: Role, *, may_broadcast: bool) -> Partitioning:
    if role is Role.KEYED:
        return Partitioning.BROADCAST if may_broadcast and rng.random() < 0.3 else Partitioning.HASH
    choices = [Partitioning.REBALANCE, Partitioning.HASH, Partitioning.HASH, Partitioning.FORWARD]
    if role is Role.UNION_LIST:
        # Behind a forward edge some of its subtasks end long before the others.
        choices[1] = Partitioning.FORWARD
    if may_broadcast:
        choices.append(Partitioning.BROADCAST)
    if role is Role.SINK:
        choices.append(Partitioning.GLOBAL)
    return rng.choice(choices)


def _make_parallelism(rng: random.Random, uneven: random.Random, topology: Topology) -> dict[str, int]:
    """Random, but mostly equal on both sides of a forward edge; it is rebalanced where not."""
    parallelism: dict[str, int] = {}
    for vertex in topology.vertices:
        parallelism[vertex.id] = rng.choice((1, 1, 2, 2, 3))
    even = [
        edge for edge in topology.edges if edge.partitioning is Partitioning.FORWARD and uneven.random() < _EVEN_EDGES
    ]
    for _ in topology.vertices:
        for edge in even:
            both = min(parallelism[edge.source], parallelism[edge.target])
            parallelism[edge.source] = parallelism[edge.target] = both
    return parallelism


def _make_runs(rng: random.Random, uneven: random.Random, topology: Topology) -> tuple[Run, ...]:
    runs: list[Run] = []
    endings = [ending for ending in Ending if ending is not Ending.FINISH]
    endings += [Ending.CANCEL_AND_RESTORE_CHECKPOINT] * 3  # the only way to rescale with in-flight data
    parallelism = _make_parallelism(rng, uneven, topology)
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2))):
        runs.append(Run(parallelism, rng.choice(endings), rng.choice(list(ClaimMode)), rng.randint(400, 2000)))
        if rng.random() < 0.85:
            parallelism = _make_parallelism(rng, uneven, topology)
    runs.append(Run(parallelism, Ending.FINISH, rng.choice(list(ClaimMode)), 0))
    return tuple(runs)

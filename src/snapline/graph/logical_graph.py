"""Checks of the logical graph as a whole: order, uids and parallelism of its operators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from snapline.api.graph_nodes import Node
from snapline.api.job import Job
from snapline.contracts.dead_letters import DEAD_LETTERS
from snapline.errors import ConfigurationError, EngineError
from snapline.protocol.keygroups import MAX_PARALLELISM_LIMIT

_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in topological order, otherwise unchanged; `EngineError` if there is a cycle."""
    known = set(nodes)
    placed: set[Node] = set()
    ordered: list[Node] = []
    waiting = list(nodes)
    for node in nodes:
        for item in node.inputs:
            if item.node not in known:
                raise EngineError(f"{node} has the input {item.node}, which is not in the job")
    while waiting:
        ready = next((node for node in waiting if all(item.node in placed for item in node.inputs)), None)
        if ready is None:
            raise EngineError(f"cycle in the dataflow between {', '.join(map(str, waiting))}")
        placed.add(ready)
        ordered.append(ready)
        waiting.remove(ready)
    return ordered


def check_ends(nodes: Sequence[Node]) -> None:
    """Raise `ConfigurationError` if there is no source, or no sink."""
    if not any(node.source is not None for node in nodes):
        raise ConfigurationError("the job has no source; start with job.source(...)")
    if not any(node.is_sink for node in nodes):
        raise ConfigurationError("the job has no sink, so its results would be lost; end with .sink(..., uid=...)")


def check_dead_letters(nodes: Sequence[Node]) -> None:
    """Raise `ConfigurationError` if dead letters of an operator would be lost."""
    read = {(item.node, item.output) for node in nodes for item in node.inputs}
    for node in nodes:
        if DEAD_LETTERS in node.side_outputs and (node, DEAD_LETTERS) not in read:
            raise ConfigurationError(
                f"{node} has on_error='dead_letter', and nothing reads its dead letters; write them with "
                ".dead_letters.sink(..., uid=...), or use on_error='drop'"
            )


def uids(nodes: Iterable[Node]) -> dict[Node, str]:
    """The uid of each node: the user's, or its name with a number."""
    nodes = list(nodes)
    given = Counter(node.uid for node in nodes if node.uid is not None)
    for node in nodes:
        if node.uid is None:
            if node.needs_uid:
                raise ConfigurationError(
                    f"the operator {node.name!r} needs a uid, by which its state is found when a changed job is "
                    'restarted; give one, for example uid="per-user"'
                )
        elif not isinstance(node.uid, str) or not _UID.fullmatch(node.uid):
            raise ConfigurationError(
                f"{node.uid!r} cannot be a uid; use up to 128 letters, digits, '-', '_' and '.', with a letter or a "
                "digit first"
            )
        elif given[node.uid] > 1:
            raise ConfigurationError(
                f"the uid {node.uid!r} is used {given[node.uid]} times; give each operator its own"
            )
    made: dict[Node, str] = {}
    counts: Counter[str] = Counter()
    for node in nodes:
        uid = node.uid
        while uid is None:
            counts[node.name] += 1
            made_uid = f"{node.name}-{counts[node.name]}"
            uid = None if made_uid in given else made_uid
        made[node] = uid
    return made


def parallelisms(job: Job, nodes: Iterable[Node]) -> dict[Node, int]:
    """The parallelism of each node; `ConfigurationError` if one is out of bounds."""
    most = job.max_parallelism
    if most is not None and not _is_count(most, MAX_PARALLELISM_LIMIT):
        raise ConfigurationError(f"max_parallelism={most!r}: use a whole number from 1 to {MAX_PARALLELISM_LIMIT}")
    limit = MAX_PARALLELISM_LIMIT if most is None else most
    reason = "" if most is None else ", the job's max_parallelism"
    if not _is_count(job.parallelism, limit):
        raise ConfigurationError(f"parallelism={job.parallelism!r}: use a whole number from 1 to {limit}{reason}")
    made: dict[Node, int] = {}
    for node in nodes:
        parallelism = job.parallelism if node.parallelism is None else node.parallelism
        if not _is_count(parallelism, limit):
            raise ConfigurationError(
                f"parallelism={parallelism!r} of {node}: use a whole number from 1 to {limit}{reason}"
            )
        made[node] = parallelism
    return made


def _is_count(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most

"""Replays placement: which subtasks a checkpoint includes, and which subtask gets which state on restore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from snapline.devtools.replay.script_fields import Fields, NotUnderstoodError, array, integer, shown, text
from snapline.protocol.coordinator.checkpoint_plan import CheckpointPlanner, Edge, PlanFailure, Vertex
from snapline.protocol.keygroups import MAX_PARALLELISM_LIMIT, default_max_parallelism, key_group_ranges
from snapline.protocol.restore.redistribution import ElementRange, SubtaskMapper, broadcast, old_subtasks, split, union
from snapline.protocol.snapshot import StoredObject
from snapline.types import OperatorStateMode, SubtaskId

_POINTWISE = {"all": False, "pointwise": True}
_MODES = {mode.name.lower(): mode for mode in OperatorStateMode}
_MAPPERS = {
    mapper.name.lower(): mapper
    for mapper in (SubtaskMapper.RANGE, SubtaskMapper.ROUND_ROBIN, SubtaskMapper.FIRST, SubtaskMapper.FULL)
}


def replay_plan(script: dict[str, Any]) -> dict[str, Any]:
    """The subtasks that a checkpoint triggers and waits for, by vertex, or why there can be no checkpoint."""
    fields = Fields(script)
    vertices: list[Vertex] = []
    finished: set[SubtaskId] = set()
    for where, item in fields.array("vertices"):
        vertex = Fields(item, where)
        name = vertex.text("id")
        vertices.append(Vertex(name, vertex.integer("parallelism", minimum=1, maximum=MAX_PARALLELISM_LIMIT)))
        finished.update(SubtaskId(name, integer(index, at)) for at, index in vertex.array("finished", []))
        vertex.done()
    edges = [_edge(item, where) for where, item in fields.array("edges", [])]
    not_running = {_subtask(item, where) for where, item in fields.array("not_running", [])}
    allow_finished = fields.flag("finish", True)
    fields.done()
    plan = CheckpointPlanner(vertices, edges, allow_finished=allow_finished).plan(
        finished=finished, not_running=not_running
    )
    if isinstance(plan, PlanFailure):
        return {"trigger": {}, "wait": {}, "error": plan.reason.name}
    return {"trigger": _by_vertex(plan.trigger), "wait": _by_vertex(plan.wait), "error": None}


def _edge(item: object, where: str) -> Edge:
    match item:
        case [str(source), str(target), str(kind)] if kind in _POINTWISE:
            return Edge(source, target, _POINTWISE[kind])
    raise NotUnderstoodError(
        f"{where} is {shown(item)}; use [vertex, vertex, kind] with the kind {' or '.join(_POINTWISE)}"
    )


def _subtask(item: object, where: str) -> SubtaskId:
    if not isinstance(item, list) or len(item) != 2:
        raise NotUnderstoodError(f"{where} is {shown(item)}; use [vertex, index]")
    return SubtaskId(text(item[0], f"{where}[0]"), integer(item[1], f"{where}[1]"))


def _by_vertex(subtasks: Iterable[SubtaskId]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for subtask in subtasks:
        indexes.setdefault(subtask.vertex, []).append(subtask.index)
    return indexes


def replay_keygroups(script: dict[str, Any]) -> dict[str, Any]:
    """The key groups of each subtask, or the max parallelism of jobs whose user set none."""
    fields = Fields(script)
    if "default_for" in fields:
        parallelisms = [integer(value, where, minimum=1) for where, value in fields.array("default_for")]
        fields.done()
        return {"default": [default_max_parallelism(parallelism) for parallelism in parallelisms]}
    max_parallelism = fields.integer("max_parallelism", minimum=1)
    parallelism = fields.integer("parallelism", minimum=1)
    fields.done()
    return {"ranges": [[groups.start, groups.end] for groups in key_group_ranges(max_parallelism, parallelism)]}


def replay_assign(script: dict[str, Any]) -> dict[str, Any]:
    """What each new subtask gets: operator list state by mode, or the old subtasks it replays by mapper."""
    fields = Fields(script)
    if ("mode" in fields) == ("mapper" in fields):
        raise NotUnderstoodError("give either a mode with states and to, or a mapper with from and to")
    to = fields.integer("to", minimum=1, maximum=MAX_PARALLELISM_LIMIT)
    if "mapper" in fields:
        mapper = fields.choice("mapper", _MAPPERS)
        old_parallelism = fields.integer("from", minimum=1, maximum=MAX_PARALLELISM_LIMIT)
        fields.done()
        return {"old": [list(old) for old in old_subtasks(mapper, old_parallelism, to)]}
    mode = fields.choice("mode", _MODES)
    states = _states(fields)
    fields.done()
    deal = {OperatorStateMode.SPLIT: split, OperatorStateMode.UNION: union, OperatorStateMode.BROADCAST: broadcast}
    ranges = {
        name: [
            None if elements is None else [ElementRange(StoredObject(str(index), 0), 0, len(elements))]
            for index, elements in enumerate(lists)
        ]
        for name, lists in states.items()
    }
    return {
        "subtasks": [
            {name: _elements(states[name], mine) for name, mine in subtask.items()}
            for subtask in deal[mode](ranges, to)
        ]
    }


def _elements(lists: list[list[Any] | None], ranges: Sequence[ElementRange]) -> list[Any]:
    """The elements of ranges whose objects are named after the old subtasks."""
    return [element for part in ranges for element in (lists[int(part.object.path)] or [])[part.start : part.stop]]


def _states(fields: Fields) -> dict[str, list[list[Any] | None]]:
    states = fields.value("states")
    where = fields.where("states")
    if not isinstance(states, dict):
        raise NotUnderstoodError(f"{where} is {shown(states)}; use an object of arrays by state name")
    result: dict[str, list[list[Any] | None]] = {}
    for name, lists in states.items():
        per_subtask = array(lists, f"{where}.{name}")
        result[name] = [
            None if item is None else [element for _, element in array(item, at)] for at, item in per_subtask
        ]
    return result

"""Where the vertices of a plan go in a drawing. Text, picture and page use the same layout.

Cells are (layer from the left, row from the top). The layer of a vertex is the longest path to it. Within the layers
vertices are ordered so that few edges cross (barycentre sweeps), then moved to rows that keep edges straight. An edge
over several layers gets a cell of its own in each layer between, which edges of the same vertex share.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil
from types import MappingProxyType
from typing import TypeAlias

from snapline.protocol.statistics.job_view import PlanView

SWEEPS = 4
"""How often the layers are ordered, each time from the left and then from the right."""

KEPT_PLANS = 64

_ROUNDING = 1e-6

Cell: TypeAlias = tuple[int, int]

_Place: TypeAlias = tuple[str, int]
"""A vertex in its layer, or in a later layer, where it stands for the edges from it that pass there."""

_Neighbours: TypeAlias = Mapping[_Place, Sequence[_Place]]


def layout(plan: PlanView) -> Mapping[str, Cell]:
    """The cell of each vertex. No two have the same; the same plan has the same layout everywhere."""
    return _layout(plan)[0]


def routes(plan: PlanView) -> Sequence[tuple[Cell, ...]]:
    """For each edge of the plan the cells it runs through, from that of its source to that of its target.

    They are in neighbouring layers, and only the first and the last hold a vertex.
    """
    return _layout(plan)[1]


@lru_cache(maxsize=KEPT_PLANS)
def _layout(plan: PlanView) -> tuple[Mapping[str, Cell], tuple[tuple[Cell, ...], ...]]:
    layer_of = _layers(plan)
    paths = [_path(edge.source, edge.target, layer_of) for edge in plan.edges]
    after, before = _neighbours(paths)
    order = _ordered(_columns(layer_of, paths), after, before)
    rows = _rows(order, after, before)
    cells = {vertex: (layer, rows[vertex, layer]) for vertex, layer in layer_of.items()}
    routes = tuple(tuple((place[1], rows[place]) for place in path) for path in paths)
    return MappingProxyType(cells), routes


def _layers(plan: PlanView) -> dict[str, int]:
    """Relies on the topological order of the vertices."""
    layer_of: dict[str, int] = {}
    for vertex in plan.vertices:
        layer_of[vertex.id] = max((layer_of[source] + 1 for source in plan.upstream(vertex.id)), default=0)
    return layer_of


def _path(source: str, target: str, layer_of: Mapping[str, int]) -> tuple[_Place, ...]:
    last = layer_of[target]
    return (*((source, layer) for layer in range(layer_of[source], last)), (target, last))


def _neighbours(paths: Iterable[tuple[_Place, ...]]) -> tuple[_Neighbours, _Neighbours]:
    after: dict[_Place, dict[_Place, None]] = {}
    before: dict[_Place, dict[_Place, None]] = {}
    for path in paths:
        for left, right in pairwise(path):
            after.setdefault(left, {})[right] = None
            before.setdefault(right, {})[left] = None
    return {place: list(found) for place, found in after.items()}, {
        place: list(found) for place, found in before.items()
    }


def _columns(layer_of: Mapping[str, int], paths: Iterable[tuple[_Place, ...]]) -> list[list[_Place]]:
    """The places of each layer, vertices in the order of the plan."""
    places = dict.fromkeys(layer_of.items())
    places.update(dict.fromkeys(place for path in paths for place in path))
    columns: list[list[_Place]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for place in places:
        columns[place[1]].append(place)
    return columns


def _ordered(columns: list[list[_Place]], after: _Neighbours, before: _Neighbours) -> list[list[_Place]]:
    """The order with the fewest crossings among those that the sweeps come by; the first of them if several."""
    best, fewest = columns, _crossings(columns, after)
    for _ in range(SWEEPS):
        for neighbours, is_from_left in ((before, True), (after, False)):
            columns = _swept(columns, neighbours, is_from_left=is_from_left)
            if (found := _crossings(columns, after)) < fewest:
                best, fewest = columns, found
    return best


def _swept(columns: list[list[_Place]], neighbours: _Neighbours, *, is_from_left: bool) -> list[list[_Place]]:
    """Each column sorted by the mean position of the neighbours on one side."""
    swept = list(columns)
    position = {place: float(row) for column in columns for row, place in enumerate(column)}
    for layer in _sweep(len(columns), is_from_left=is_from_left):
        swept[layer] = sorted(swept[layer], key=_mean_of(position, neighbours))
        position.update({place: float(row) for row, place in enumerate(swept[layer])})
    return swept


def _crossings(columns: list[list[_Place]], after: _Neighbours) -> int:
    found = 0
    for left, right in pairwise(columns):
        position = {place: row for row, place in enumerate(right)}
        ends: list[int] = []
        for place in left:
            targets = [position[target] for target in after.get(place, ())]
            found += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return found


def _rows(order: list[list[_Place]], after: _Neighbours, before: _Neighbours) -> dict[_Place, int]:
    """Rows near the mean of the neighbours', first of those on the left, then of those on the right, then of both."""
    rows = {place: float(row) for column in order for row, place in enumerate(column)}
    both = {place: [*before.get(place, ()), *after.get(place, ())] for place in rows}
    for neighbours, is_from_left in ((before, True), (after, False), (both, True)):
        for layer in _sweep(len(order), is_from_left=is_from_left):
            wanted = map(_mean_of(rows, neighbours), order[layer])
            rows.update(zip(order[layer], _apart(wanted), strict=True))
    top = min(rows.values(), default=0.0)
    return {place: ceil(row - top - 0.5 - _ROUNDING) for place, row in rows.items()}


def _apart(wanted: Iterable[float]) -> list[float]:
    """The rows nearest to the wanted ones (least squares) that keep the order and a distance of 1.

    Neighbours that want to be closer are joined to a block around the mean of their wishes.
    """
    blocks: list[tuple[float, int]] = []
    for index, row in enumerate(wanted):
        total, size = row - index, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / size:
            more, larger = blocks.pop()
            total, size = total + more, size + larger
        blocks.append((total, size))
    rows: list[float] = []
    for total, size in blocks:
        rows += [total / size + index for index in range(len(rows), len(rows) + size)]
    return rows


def _sweep(layers: int, *, is_from_left: bool) -> range:
    return range(layers) if is_from_left else range(layers - 1, -1, -1)


def _mean_of(rows: Mapping[_Place, float], neighbours: _Neighbours) -> Callable[[_Place], float]:
    """The mean row of a place's neighbours, or its own if it has none."""

    def mean(place: _Place) -> float:
        found = [rows[neighbour] for neighbour in neighbours.get(place, ())]
        return sum(found) / len(found) if found else rows[place]

    return mean

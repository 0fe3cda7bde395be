"""The dataflow as a picture: SVG that needs nothing from outside, legible on light and dark backgrounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from snapline.api.plan_sketch import cut, width
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView
from snapline.protocol.statistics.plan_layout import Cell, layout, routes
from snapline.types import Partitioning

MAX_LABEL = 40
"""Longest line in a box, in characters."""

MAX_EDGE_LABEL = 26
MAX_OPERATORS = 12
"""Most operators listed in a box."""

MAX_TOOLTIP_COLUMNS = 50

_CHAR, _SMALL_CHAR = 7.3, 6.1
_LINE = 18.0
_PADDING = 12.0
_ROW_GAP = 26.0
_MARGIN = 20.0
_HEADER = 34.0
_LEAST_CHANNEL = 56.0
_BEND = 50.0
_ARROW = 7.0

_STYLE = """
.snapline-plan { color-scheme: light dark; font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.snapline-plan .sheet { fill: #ffffff; }
.snapline-plan .box { fill: #f4f6f9; stroke: #8a94a6; }
.snapline-plan .bar { fill: #3563c9; }
.snapline-plan .bar.source { fill: #1d7a46; }
.snapline-plan .bar.sink { fill: #b4540a; }
.snapline-plan .edge { fill: none; stroke: #66707f; stroke-width: 1.5; }
.snapline-plan .arrow { fill: #66707f; }
.snapline-plan text { fill: #1b212b; }
.snapline-plan .title { font-weight: 700; }
.snapline-plan .more { fill: #4f5867; }
.snapline-plan .label { fill: #4f5867; font-size: 10px; stroke: #ffffff; stroke-width: 3px; paint-order: stroke; }
@media (prefers-color-scheme: dark) {
.snapline-plan .sheet { fill: #14181f; }
.snapline-plan .box { fill: #1f2631; stroke: #6b7688; }
.snapline-plan .bar { fill: #7ea6ff; }
.snapline-plan .bar.source { fill: #56c98a; }
.snapline-plan .bar.sink { fill: #f0a35e; }
.snapline-plan .edge { stroke: #9aa5b5; }
.snapline-plan .arrow { fill: #9aa5b5; }
.snapline-plan text { fill: #e8ecf2; }
.snapline-plan .more, .snapline-plan .label { fill: #b3bccb; }
.snapline-plan .label { stroke: #14181f; }
}
"""


@dataclass(frozen=True, slots=True)
class _Box:
    """A vertex in the picture."""

    vertex: VertexView
    lines: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def picture(plan: PlanView, title: str) -> str:
    """The whole SVG text. Boxes have the details of their operators as tooltips."""
    cells = layout(plan)
    ways = routes(plan)
    contents = {vertex.id: _contents(vertex) for vertex in plan.vertices}
    layers = range(1 + max((layer for layer, _ in cells.values()), default=-1))
    rows = range(1 + max((row for way in (*ways, tuple(cells.values())) for _, row in way), default=-1))
    widths = [max(_box_width(contents[found]) for found, cell in cells.items() if cell[0] == layer) for layer in layers]
    heights = [
        max((_box_height(contents[found]) for found, cell in cells.items() if cell[1] == row), default=_LINE)
        for row in rows
    ]
    channels = [_channel(plan, ways, layer) for layer in layers]
    xs = [_MARGIN + sum(widths[:layer]) + sum(channels[:layer]) for layer in layers]
    ys = [_MARGIN + _HEADER + sum(heights[:row]) + _ROW_GAP * row for row in rows]
    boxes = {}
    for vertex in plan.vertices:
        layer, row = cells[vertex.id]
        height = _box_height(contents[vertex.id])
        y = ys[row] + (heights[row] - height) / 2
        boxes[vertex.id] = _Box(vertex, contents[vertex.id], xs[layer], y, widths[layer], height)
    # A waypoint is a line through the middle of its cell.
    middles = [y + height / 2 for y, height in zip(ys, heights, strict=True)]
    spans = [(x, x + span) for x, span in zip(xs, widths, strict=True)]
    total_width = max(spans[-1][1] if spans else 0.0, _MARGIN + width(title) * _CHAR) + _MARGIN
    total_height = (ys[-1] + heights[-1] if rows else _MARGIN + _HEADER) + _MARGIN
    shown = [
        *_edges(plan, ways, boxes, middles, spans),
        *(part for box in boxes.values() for part in _drawn(box)),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="snapline-plan" role="img" width="{total_width:.0f}" '
        f'height="{total_height:.0f}" viewBox="0 0 {total_width:.0f} {total_height:.0f}">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="sheet" width="100%" height="100%" rx="8"/>\n'
        f'<text class="title" x="{_MARGIN:.0f}" y="{_MARGIN + 10:.0f}">{_text(title)}</text>\n'
        + "\n".join(shown)
        + "\n</svg>\n"
    )


def edge_label(edge: EdgeView) -> str:
    """How rows find their subtask, in a few words; empty if they stay where they are."""
    parts = [] if not edge.output else [f"{edge.output}:"]
    if edge.partitioning is Partitioning.HASH:
        parts.append(f"by {', '.join(edge.key_columns)}")
    elif edge.partitioning is not Partitioning.FORWARD:
        parts.append(edge.partitioning.value.lower())
    return " ".join(parts).removesuffix(":")


# Contents of boxes.


def _contents(vertex: VertexView) -> tuple[str, ...]:
    shown = [cut(_operator(vertex, operator), MAX_LABEL) for operator in vertex.operators[:MAX_OPERATORS]]
    more = len(vertex.operators) - MAX_OPERATORS
    size = f" ×{vertex.parallelism}"
    return (cut(vertex.id, MAX_LABEL - len(size)) + size, *shown, *([f"and {more} more"] if more > 0 else ()))


def _operator(vertex: VertexView, operator: OperatorView) -> str:
    text = operator.name if operator.uid == vertex.id else f"{operator.uid}: {operator.name}"
    if operator.key_columns:
        text += f" by {', '.join(operator.key_columns)}"
    marks = [
        mark
        for mark, is_so in (
            ("source", operator.is_source),
            ("sink", operator.is_sink),
            ("state", operator.has_state and not operator.is_source and not operator.is_sink),
        )
        if is_so
    ]
    return f"{text} ({', '.join(marks)})" if marks else text


def _tooltip(vertex: VertexView) -> str:
    lines = [f"{vertex.id}: parallelism {vertex.parallelism} of at most {vertex.max_parallelism}"]
    for operator in vertex.operators:
        columns = [f"{name} {kind}" for name, kind in operator.columns[:MAX_TOOLTIP_COLUMNS]]
        if len(operator.columns) > MAX_TOOLTIP_COLUMNS:
            columns.append(f"and {len(operator.columns) - MAX_TOOLTIP_COLUMNS} more")
        lines.append(f"{_operator(vertex, operator)}{(columns and ': ') or ''}{', '.join(columns)}")
    return "\n".join(lines)


def _box_width(lines: Sequence[str]) -> float:
    return max(map(width, lines)) * _CHAR + 2 * _PADDING + 4


def _box_height(lines: Sequence[str]) -> float:
    return len(lines) * _LINE + _PADDING


def _channel(plan: PlanView, ways: Sequence[tuple[Cell, ...]], layer: int) -> float:
    """The room to the right of a layer: labels stand where edges arrive."""
    labels = [
        cut(edge_label(edge), MAX_EDGE_LABEL)
        for edge, way in zip(plan.edges, ways, strict=True)
        if way[-1][0] == layer + 1
    ]
    return max([_LEAST_CHANNEL, *(width(label) * _SMALL_CHAR + _BEND for label in labels)])


# Drawing.


def _drawn(box: _Box) -> list[str]:
    vertex = box.vertex
    kind = " source" if vertex.is_source else " sink" if vertex.is_sink else ""
    parts = [
        f"<g><title>{_text(_tooltip(vertex))}</title>",
        f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5"/>',
        f'<rect class="bar{kind}" x="{box.x:.1f}" y="{box.y:.1f}" width="4" height="{box.height:.1f}" rx="2"/>',
    ]
    for number, line in enumerate(box.lines):
        style = "title" if number == 0 else "more"
        y = box.y + _PADDING / 2 + _LINE * number + 13
        parts.append(f'<text class="{style}" x="{box.x + _PADDING + 4:.1f}" y="{y:.1f}">{_text(line)}</text>')
    return [*parts, "</g>"]


def _edges(
    plan: PlanView,
    ways: Sequence[tuple[Cell, ...]],
    boxes: Mapping[str, _Box],
    middles: Sequence[float],
    spans: Sequence[tuple[float, float]],
) -> list[str]:
    """Curves from the right of a box through the cells between to the left of another, which they reach one by one."""
    arriving: dict[str, list[int]] = {}
    for number in sorted(range(len(plan.edges)), key=lambda number: (ways[number][-2][1], number)):
        arriving.setdefault(plan.edges[number].target, []).append(number)
    lines, labels = [], []
    for number, (edge, way) in enumerate(zip(plan.edges, ways, strict=True)):
        source, target = boxes[edge.source], boxes[edge.target]
        others, label = arriving[edge.target], cut(edge_label(edge), MAX_EDGE_LABEL)
        y = target.y + target.height * (others.index(number) + 1) / (len(others) + 1)
        points = [(source.x + source.width, source.middle)]
        for layer, row in way[1:-1]:
            points += [(spans[layer][0], middles[row]), (spans[layer][1], middles[row])]
        points += [(target.x - width(label) * _SMALL_CHAR - 2 * _ARROW, y), (target.x - _ARROW, y)]
        lines.append(f'<path class="edge" d="{_curve(points)}"/>')
        lines.append(f'<path class="arrow" d="M{target.x:.1f} {y:.1f}l{-_ARROW - 1:.1f} -4v8z"/>')
        if label:
            place = f'x="{target.x - _ARROW - 3:.1f}" y="{y - 4:.1f}"'
            labels.append(f'<text class="label" text-anchor="end" {place}>{_text(label)}</text>')
    return [*lines, *labels]


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Bent and straight in turns: through the cells on the way, and below the label at the end."""
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for number, (next_x, next_y) in enumerate(points[1:], 1):
        if number % 2 == 0:
            path += f"H{next_x:.1f}"
        else:
            bend = (x + next_x) / 2
            path += f"C{bend:.1f} {y:.1f} {bend:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}"
        x, y = next_x, next_y
    return path


def _text(text: str) -> str:
    """Text for XML, without the characters that it does not allow."""
    allowed = "".join(char if char == "\n" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return escape(allowed)

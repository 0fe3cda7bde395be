"""The dataflow drawn with the characters of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from unicodedata import combining, east_asian_width

from snapline.protocol.statistics.job_view import PlanView, VertexView
from snapline.protocol.statistics.plan_layout import Cell, layout, routes

MAX_LABEL = 30
"""Longest line in a box."""

_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8
_LINES = {
    _LEFT | _RIGHT: "─",
    _UP | _DOWN: "│",
    _RIGHT | _DOWN: "┌",
    _LEFT | _DOWN: "┐",
    _RIGHT | _UP: "└",
    _LEFT | _UP: "┘",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _RIGHT | _UP: "┴",
    _LEFT | _RIGHT | _UP | _DOWN: "┼",
}
_BOX_LINES = 4
_GAP_LINES = 1
_PORT_LINE = 1
"""The line of a box at which edges begin and end."""

_ARROW = "▶"


def sketch(plan: PlanView, most_columns: int) -> str:
    """Boxes and arrows in at most this many columns; empty if they do not fit, or lines would be ambiguous."""
    cells = layout(plan)
    steps = {step for route in routes(plan) for step in pairwise(route)}
    layers = range(1 + max((layer for layer, _ in cells.values()), default=-1))
    boxes = {cells[vertex.id]: _lines(vertex) for vertex in plan.vertices}
    widths = [max(width(text) for cell, lines in boxes.items() for text in lines if cell[0] == i) + 4 for i in layers]
    tracks = [_tracks({(left[1], right[1]) for left, right in steps if left[0] == layer}) for layer in layers]
    if None in tracks:
        return ""
    channels = [5 + 2 * len(found or ()) for found in tracks]
    starts = [sum(widths[:layer]) + sum(channels[:layer]) for layer in layers]
    if not boxes or starts[-1] + widths[-1] > most_columns:
        return ""
    canvas = _Canvas()
    for cell in {cell for step in steps for cell in step} - boxes.keys():
        canvas.across(cell, _port(cell[1]), starts[cell[0]] - 1, starts[cell[0]] + widths[cell[0]])
    for left, right in steps:
        begin, end = starts[left[0]] + widths[left[0]] - 1, starts[right[0]]
        found = tracks[left[0]] or {}
        track = begin + 3 + 2 * found.get(left[1], 0)
        canvas.connect(left, (_port(left[1]), begin), track, (_port(right[1]), end))
    for (layer, row), lines in boxes.items():
        has_input = any(right == (layer, row) for _, right in steps)
        has_output = any(left == (layer, row) for left, _ in steps)
        canvas.box(_top(row), starts[layer], widths[layer], lines, has_input=has_input, has_output=has_output)
    return canvas.text()


def width(text: str) -> int:
    """How many columns a terminal needs for a text."""
    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def cut(text: str, most: int) -> str:
    """The text in at most this many columns, with an ellipsis if it was longer; what cannot be shown is replaced."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    if width(shown) <= most:
        return shown
    while width(shown) > most - 1:
        shown = shown[:-1]
    return f"{shown}…"


def _lines(vertex: VertexView) -> tuple[str, str]:
    names = [f"{it.name} by {', '.join(it.key_columns)}" if it.key_columns else it.name for it in vertex.operators]
    size = f" ×{vertex.parallelism}"
    return cut(vertex.id, MAX_LABEL - len(size)) + size, cut(" → ".join(names), MAX_LABEL)


def _top(row: int) -> int:
    return row * (_BOX_LINES + _GAP_LINES)


def _port(row: int) -> int:
    return _top(row) + _PORT_LINE


def _tracks(steps: set[tuple[int, int]]) -> Mapping[int, int] | None:
    """The vertical line of each row on the left that has an edge to another row; None if lines would overlap.

    What comes in at a row from elsewhere must run to the right of where that row's own edges have left it.
    """
    order: TopologicalSorter[int] = TopologicalSorter()
    bent = {left for left, right in steps if left != right}
    for left in sorted(bent):
        order.add(left)
    for left, right in sorted(steps):
        if left != right and right in bent:
            order.add(left, right)
    try:
        return {row: track for track, row in enumerate(order.static_order())}
    except CycleError:
        return None


class _Canvas:
    """Lines, by the directions in which they leave each place, and characters above them.

    Every line has an owner, the cell it comes from: lines that cross are joined only if they have one in common.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int], int] = {}
        self._across: dict[tuple[int, int], set[Cell]] = {}
        self._down: dict[tuple[int, int], set[Cell]] = {}
        self._texts: dict[tuple[int, int], str] = {}

    def across(self, owner: Cell, y: int, begin: int, end: int) -> None:
        """A line from the middle of one column to the middle of another."""
        for x in range(begin, end + 1):
            self._add(y, x, (_LEFT if x > begin else 0) | (_RIGHT if x < end else 0))
            self._across.setdefault((y, x), set()).add(owner)

    def down(self, owner: Cell, x: int, begin: int, end: int) -> None:
        for y in range(begin, end + 1):
            self._add(y, x, (_UP if y > begin else 0) | (_DOWN if y < end else 0))
            self._down.setdefault((y, x), set()).add(owner)

    def connect(self, owner: Cell, source: tuple[int, int], track: int, target: tuple[int, int]) -> None:
        """A line along `track` from the right edge of one box to the left edge of another."""
        (from_y, begin), (to_y, end) = source, target
        if from_y == to_y:
            self.across(owner, from_y, begin, end)
            return
        self.across(owner, from_y, begin, track)
        self.down(owner, track, *sorted((from_y, to_y)))
        self.across(owner, to_y, track, end)

    def box(self, y: int, x: int, box_width: int, lines: Sequence[str], *, has_input: bool, has_output: bool) -> None:
        inside = "─" * (box_width - 2)
        self._write(y, x, f"┌{inside}┐")
        for number, line in enumerate(lines, 1):
            is_port = number == _PORT_LINE
            right = "├" if is_port and has_output else "│"
            self._write(y + number, x, f"│ {line}{' ' * (box_width - 4 - width(line))} {right}")
            if is_port and has_input:
                self._write(y + number, x - 1, _ARROW)
        self._write(y + len(lines) + 1, x, f"└{inside}┘")

    def _add(self, y: int, x: int, directions: int) -> None:
        self._lines[y, x] = self._lines.get((y, x), 0) | directions

    def _write(self, y: int, x: int, text: str) -> None:
        for char in text:
            if combining(char):
                self._texts[y, x - 1] = self._texts.get((y, x - 1), "") + char
                continue
            self._texts[y, x] = char
            x += 1
            if east_asian_width(char) in "WF":
                self._texts[y, x] = ""
                x += 1

    def text(self) -> str:
        used = [*self._lines, *self._texts]
        right = max(x for _, x in used)
        rows = []
        for y in range(max(y for y, _ in used) + 1):
            chars = [self._texts.get((y, x)) for x in range(right + 1)]
            lines = [self._line(y, x) for x in range(right + 1)]
            rows.append("".join(line if char is None else char for char, line in zip(chars, lines, strict=True)))
        return "\n".join(row.rstrip() for row in rows)

    def _line(self, y: int, x: int) -> str:
        across, down = self._across.get((y, x)), self._down.get((y, x))
        if across and down and not across & down:
            return _LINES[_UP | _DOWN]
        return _LINES.get(self._lines.get((y, x), 0), " ")

"""The plan of a job as text: what is in each vertex, and where its rows go."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from snapline.api.plan_sketch import width
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView, VertexView
from snapline.protocol.statistics.plan_layout import layout
from snapline.types import Partitioning

TEXT_WIDTH = 100
MAX_COLUMNS = 40
"""Most columns of an operator's output that are listed."""

_WORDS = {
    Partitioning.FORWARD: "to the same subtask",
    Partitioning.REBALANCE: "in turns to all subtasks",
    Partitioning.BROADCAST: "every row to every subtask",
    Partitioning.GLOBAL: "all rows to one subtask",
}


def facts_text(facts: Iterable[tuple[str, str]]) -> str:
    """Names in one column, what they say in another."""
    rows = [(name, text) for name, text in facts if text]
    indent = max((width(name) for name, _ in rows), default=0) + 2
    return "\n".join(_wrapped(text, f"{name}{' ' * (indent - width(name))}", " " * indent) for name, text in rows)


def vertices_text(plan: PlanView, remarks: Mapping[str, str]) -> str:
    """The vertices with their operators, columns and outputs, from left to right as they are drawn.

    `remarks` say more about operators, by uid.
    """
    cells = layout(plan)
    ordered = sorted(plan.vertices, key=lambda vertex: cells[vertex.id])
    return "\n\n".join(_vertex_text(vertex, plan, remarks) for vertex in ordered)


def _vertex_text(vertex: VertexView, plan: PlanView, remarks: Mapping[str, str]) -> str:
    lines = [f"{vertex.id}: parallelism {vertex.parallelism}, at most {vertex.max_parallelism}"]
    indent = max(width(operator.uid) for operator in vertex.operators) + 4
    before: Sequence[tuple[str, str]] = ()
    for operator in vertex.operators:
        says = "; ".join(filter(None, (_operator_text(operator), remarks.get(operator.uid, ""))))
        lines.append(_wrapped(says, f"  {operator.uid}{' ' * (indent - 2 - width(operator.uid))}", " " * indent))
        if operator.columns and operator.columns != before:
            lines.append(_wrapped(_columns_text(operator.columns), f"{' ' * indent}-> ", " " * (indent + 3)))
        before = operator.columns
    lines += [f"  {_edge_text(edge)}" for edge in plan.edges if edge.source == vertex.id]
    return "\n".join(lines)


def _operator_text(operator: OperatorView) -> str:
    text = operator.name
    if operator.key_columns:
        text += f" by {', '.join(operator.key_columns)}"
    kind = "source" if operator.is_source else "sink" if operator.is_sink else "has state" if operator.has_state else ""
    return f"{text}, {kind}" if kind else text


def _columns_text(columns: Sequence[tuple[str, str]]) -> str:
    shown = [f"{name} {kind}" for name, kind in columns[:MAX_COLUMNS]]
    more = len(columns) - MAX_COLUMNS
    return ", ".join([*shown, *([f"and {more} more"] if more > 0 else ())])


def _edge_text(edge: EdgeView) -> str:
    output = f"its {edge.output} " if edge.output else ""
    if edge.partitioning is Partitioning.HASH:
        return f"=> {output}to {edge.target}, by {', '.join(edge.key_columns)}"
    return f"=> {output}to {edge.target}, {_WORDS[edge.partitioning]}"


def _wrapped(text: str, first: str, later: str) -> str:
    return textwrap.fill(
        text,
        max(TEXT_WIDTH, len(later) + 40),
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )

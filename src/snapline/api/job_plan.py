"""How a job would run, before it does: what `Job.explain` returns."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from snapline.api.plan_sketch import sketch
from snapline.api.plan_svg import picture
from snapline.api.plan_text import TEXT_WIDTH, facts_text, vertices_text
from snapline.errors import ConfigurationError
from snapline.protocol.statistics.job_view import PlanView


@dataclass(frozen=True, slots=True)
class JobPlan:
    """How a job would run. `str()` is the plan as text; a notebook shows it as a picture.

    `view` has the vertices and edges, `slots` is how many tasks must run at the same time. `facts` are settings and
    what follows from them, as (name, text); `remarks` say more about operators, by uid; `notes` warn of settings that
    do not have the effect they seem to have.
    """

    name: str
    view: PlanView
    slots: int
    facts: tuple[tuple[str, str], ...] = ()
    remarks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [
            self.title,
            sketch(self.view, TEXT_WIDTH),
            facts_text([*self.facts, *(("note", note) for note in self.notes)]),
            vertices_text(self.view, self.remarks),
        ]
        return "\n\n".join(filter(None, parts))

    def __repr__(self) -> str:
        return f"<JobPlan {self.name!r}: {len(self.view.vertices)} vertices, {self.slots} slots>"

    @property
    def title(self) -> str:
        """The plan in one line."""
        vertices = len(self.view.vertices)
        operators = sum(len(vertex.operators) for vertex in self.view.vertices)
        return (
            f"Job {self.name!r}: {operators} operator{'s' * (operators != 1)} in {vertices} "
            f"{'vertex' if vertices == 1 else 'vertices'}, {self.slots} slot{'s' * (self.slots != 1)}"
        )

    @property
    def svg(self) -> str:
        """The dataflow as an SVG picture."""
        return picture(self.view, self.title)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file that ends in .svg, or the text to one that ends in .txt."""
        match Path(path).suffix.lower():
            case ".svg":
                text = self.svg
            case ".txt":
                text = f"{self}\n"
            case _:
                raise ConfigurationError(f"save({str(path)!r}): give a file name that ends in .svg or .txt")
        Path(path).write_text(text, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        # As an image of its own, so that styles of the notebook and of the picture do not mix.
        image = base64.b64encode(self.svg.encode()).decode()
        notes = "".join(f"<p><b>Note:</b> {escape(note)}</p>" for note in self.notes)
        return (
            f'<div><img alt="{escape(self.title)}" style="max-width:100%;height:auto" '
            f'src="data:image/svg+xml;base64,{image}">{notes}'
            f"<details><summary>{escape(self.title)}</summary>"
            f'<pre style="line-height:1.2;overflow:auto">{escape(str(self))}</pre></details></div>'
        )

"""The dataflow drawn with the characters of a terminal."""

from __future__ import annotations

from textwrap import dedent

import pytest
from tests.unit.api.plan_kit import clicks_plan, plan_of, vertex

from snapline.api.plan_sketch import MAX_LABEL, cut, sketch, width
from snapline.protocol.statistics.job_view import OperatorView, PlanView


def shown(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_chain() -> None:
    assert sketch(plan_of("a>b", "b>c"), 80) == shown("""
        ┌──────┐     ┌──────┐     ┌──────┐
        │ a ×1 ├────▶│ b ×1 ├────▶│ c ×1 │
        │ map  │     │ map  │     │ map  │
        └──────┘     └──────┘     └──────┘
    """)


def test_rows_part_and_meet_again() -> None:
    assert sketch(plan_of("a>b", "a>c", "b>d", "c>d"), 80) == shown("""
        ┌──────┐       ┌──────┐       ┌──────┐
        │ a ×1 ├──┬───▶│ b ×1 ├──┬───▶│ d ×1 │
        │ map  │  │    │ map  │  │    │ map  │
        └──────┘  │    └──────┘  │    └──────┘
                  │              │
                  │    ┌──────┐  │
                  └───▶│ c ×1 ├──┘
                       │ map  │
                       └──────┘
    """)


def test_a_long_edge_runs_around_the_boxes() -> None:
    assert sketch(plan_of("a>b", "b>c", "c>d", "a>d"), 80) == shown("""
        ┌──────┐       ┌──────┐     ┌──────┐       ┌──────┐
        │ a ×1 ├──┬───▶│ b ×1 ├────▶│ c ×1 ├──┬───▶│ d ×1 │
        │ map  │  │    │ map  │     │ map  │  │    │ map  │
        └──────┘  │    └──────┘     └──────┘  │    └──────┘
                  │                           │
                  │                           │
                  └───────────────────────────┘
    """)


def test_parallelism_keys_and_chained_operators() -> None:
    text = sketch(clicks_plan(), 80)
    for part in ("clicks ×2", "per-user ×4", "aggregate by user → Files"):
        assert part in text


def test_lines_that_cross_without_meeting_are_not_joined() -> None:
    # a -> x, b -> y and a -> z, b -> z in one layer: whatever the order, one line crosses another.
    text = sketch(plan_of("a>x", "a>y", "a>z", "b>y", "c>y"), 80)
    assert text
    assert "┼" in text  # a's own lines are


@pytest.mark.parametrize(
    ("plan", "columns"),
    [(PlanView((), ()), 80), (plan_of("a>b", "b>c"), 30), (plan_of("a>c", "a>d", "b>c", "b>d"), 80)],
    ids=["nothing", "too wide", "ambiguous"],
)
def test_what_cannot_be_drawn_is_not(plan: PlanView, columns: int) -> None:
    assert sketch(plan, columns) == ""


def test_long_wide_and_unprintable_names_keep_the_frame() -> None:
    plan = PlanView((vertex("a" * 200, OperatorView("a", "写入\x1b[31m" + "ü" * 100), parallelism=1000),), ())
    lines = sketch(plan, 80).splitlines()
    assert len({width(line) for line in lines}) == 1
    assert width(lines[0]) == MAX_LABEL + 4
    assert "×1000" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_width() -> None:
    assert width("abc") == 3
    assert width("写入") == 4
    assert width("e\N{COMBINING ACUTE ACCENT}") == 1


def test_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert cut("写入写", 4) == "写…"
    assert cut("a\nb", 3) == "a\N{REPLACEMENT CHARACTER}b"

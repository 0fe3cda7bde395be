"""The plan of a job as text."""

from __future__ import annotations

from textwrap import dedent

from tests.unit.api.plan_kit import clicks_plan, vertex

from snapline.api.plan_text import MAX_COLUMNS, TEXT_WIDTH, facts_text, vertices_text
from snapline.protocol.statistics.job_view import EdgeView, OperatorView, PlanView
from snapline.types import Partitioning


def test_vertices_from_left_to_right() -> None:
    assert vertices_text(clicks_plan(), {"clicks": "never ends"}) == dedent("""\
        clicks: parallelism 2, at most 128
          clicks  Rate, source; never ends
                  -> user string, time timestamp[ms]
          => its dead_letters to bad, in turns to all subtasks
          => to per-user, by user

        bad: parallelism 1, at most 128
          bad  Print, sink

        per-user: parallelism 4, at most 128
          per-user  aggregate by user, has state
                    -> user string, n int64
          counts    Files, sink""")


def test_columns_are_listed_where_they_change() -> None:
    one, other = (("a", "int64"),), (("b", "int64"),)
    chain = [OperatorView(f"o{number}", "map", columns=columns) for number, columns in enumerate((one, one, other))]
    assert vertices_text(PlanView((vertex("o0", *chain),), ()), {}).count("->") == 2


def test_long_lines_are_wrapped_and_many_columns_cut() -> None:
    columns = tuple((f"column_{number}", "decimal128(38, 10)") for number in range(MAX_COLUMNS + 3))
    text = vertices_text(PlanView((vertex("o", OperatorView("o", "map", columns=columns)),), ()), {})
    assert text.endswith("and 3 more")
    assert max(map(len, text.splitlines())) <= TEXT_WIDTH


def test_every_partitioning_has_words() -> None:
    for partitioning in Partitioning:
        plan = PlanView((vertex("a"), vertex("b")), (EdgeView("a", "b", partitioning, ("k",)),))
        assert "=> to b, " in vertices_text(plan, {})


def test_facts_are_aligned_and_empty_ones_left_out() -> None:
    assert facts_text([("a", "one"), ("none", ""), ("long", "two")]) == "a     one\nlong  two"
    assert facts_text([]) == ""
    lines = facts_text([("note", "word " * 50)]).splitlines()
    assert len(lines) > 1
    assert all(line.startswith("      word") for line in lines[1:])

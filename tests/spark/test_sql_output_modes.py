"""The queries of `test_sql_queries` in each output mode: what a sink gets adds up to Spark's answer.

Spark itself says which modes it allows for a query. All of these must run here; of the others, those that run must be
right too.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.test_sql_queries import QUERIES, Query, Views, answer, plain, tables

import snapline as sl
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.catalyst.subquery_values import scalar_value
from snapline.sql.lowering.lowered_stream import Context
from snapline.sql.lowering.output_modes import output_stream
from snapline.sql.plans.fingerprints import Uids
from snapline.sql.plans.preparation import prepared
from snapline.sql.plans.trees import Expression, Plan
from snapline.testing import ThreadCluster

__all__ = ["tables"]

MODES = ("append", "update", "complete")
NEVER_FINAL = (
    "select e.id, o.oid from events e left join orders o on e.user = o.ouser and e.price > o.oid and e.price > 800"
)
"""Spark takes it in append mode too, but never emits rows without a match: nothing bounds their time. Refused here."""

QUERIES_IN_A_JOB = 8
"""So that 47 queries in three modes do not start as many jobs."""


def spark_allows(spark: SparkSession, frame: DataFrame, mode: str) -> bool:
    jvm: Any = spark._jvm
    package = jvm.org.apache.spark.sql
    given = getattr(package.streaming.OutputMode, mode.capitalize())()
    try:
        package.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            frame._jdf.queryExecution().analyzed(), given
        )
    except AnalysisException:
        return False
    return True


def key_places(plan: Plan) -> list[int] | None:
    """The columns that say which row of an aggregate an update replaces; None where rows are no results of groups."""
    if plan.kind == "Aggregate" and not any(node.kind == "Expand" for node in plan.walk()):
        columns = plan.expressions["aggregateExpressions"]
        return [n for n, each in enumerate(columns) if not _has(each, "AggregateExpression")]
    if plan.kind == "Project":
        below = key_places(plan.children[0])
        if below is None:
            return None
        keys = {plan.children[0].output[n].id for n in below}
        return [n for n, each in enumerate(plan.expressions["projectList"]) if each.references & keys]
    if plan.kind in ("Filter", "SubqueryAlias", "View"):
        return key_places(plan.children[0])
    return None


def _has(expression: Expression, kind: str) -> bool:
    return any(each.kind == kind for each in expression.walk())


def emitted(table: Any) -> list[Any]:
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(map(plain, row)) for row in zip(*columns, strict=True)]


def difference(mode: str, rows: list[Any], expected: Counter[Any], keys: list[int] | None) -> str:
    """What is wrong with the rows that a sink got, if anything."""
    if mode != "update" or keys is None:
        # An update that no key identifies adds rows: the answer must be among them.
        missing = expected - Counter(rows)
        extra = Counter() if mode == "update" else Counter(rows) - expected
        return "" if not missing and not extra else f"missing {missing}, unexpected {extra}"
    latest = {tuple(row[n] for n in keys): row for row in rows}
    # A group that a condition drops later leaves its last row behind, as in Spark.
    missing = expected - Counter(latest.values())
    return f"missing {missing}" if missing else ""


def test_every_mode_that_spark_allows_adds_up_to_its_answer(spark: SparkSession, tables: tuple[Views, Views]) -> None:
    streams, static = tables
    allowed: dict[int, list[str]] = {}
    problems: list[str] = []
    pending: list[tuple[int, str, list[int] | None, sl.sinks.Collect]] = []
    job = sl.Job("modes")
    jobs = [job]
    for number, query in enumerate(QUERIES):
        frame = answer(spark, query, streams)
        plan = read_plan(frame)
        ready, keys = prepared(plan, scalar_value), key_places(plan)
        if number % QUERIES_IN_A_JOB == 0:
            job = sl.Job("modes")
            jobs.append(job)
        for mode in MODES:
            is_allowed = spark_allows(spark, frame, mode)
            if is_allowed:
                allowed.setdefault(number, []).append(mode)
            try:
                stream = output_stream(ready, Context(job, Uids(f"{number}-{mode}"), mode, is_bounded=True))
            except sl.ConfigurationError as error:
                if is_allowed and (query, mode) != (NEVER_FINAL, "append"):
                    problems.append(f"Spark runs {shown(query)} in {mode} mode: {error}")
                continue
            sink = sl.sinks.Collect()
            stream.sink(sink, f"{number}-{mode}-rows")
            pending.append((number, mode, keys, sink))
    for each in jobs[1:]:
        assert each.run(ThreadCluster()) is sl.JobStatus.FINISHED
    expected: dict[int, Counter[Any]] = {}
    for number, mode, keys, sink in pending:
        if number not in expected:
            expected[number] = Counter(emitted(answer(spark, QUERIES[number], static).toArrow()))
        wrong = difference(mode, emitted(sink.table()), expected[number], keys)
        if wrong:
            problems.append(f"{shown(QUERIES[number])} in {mode} mode: {wrong[:500]}")
    assert not problems, "\n".join(problems)
    assert len(allowed) >= 30
    assert {mode for modes in allowed.values() for mode in modes} == set(MODES)


def shown(query: Query) -> str:
    return query if isinstance(query, str) else "a DataFrame"


@pytest.mark.parametrize(
    ("rows", "expected", "keys", "mode"),
    [
        ([("a", 1), ("a", 2)], [("a", 1)], [0], "update"),
        ([("a", 1)], [("a", 1), ("b", 1)], None, "append"),
        ([("a", 1), ("a", 1)], [("a", 1)], None, "complete"),
    ],
)
def test_a_difference_is_found(rows: list[Any], expected: list[Any], keys: list[int] | None, mode: str) -> None:
    assert difference(mode, rows, Counter(expected), keys)

"""One run: expressions are made, evaluated in Spark and here, and compared."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.expressions import comparison, spark_answers
from benchmarks.expressions.comparison import Answer
from benchmarks.expressions.generation import COPIES, Generated, Generator, column_name, edge_table
from benchmarks.expressions.signatures import table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from snapline.devtools.pages.functions_page import is_supported, known_expressions, spark_functions
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.trees import Attribute, Expression

ZONES = (
    *("America/Los_Angeles", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo"),
    *("Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu", "America/St_Johns", "Europe/Dublin", "-03:30"),
)
"""Each seed takes UTC and one of these: clocks that change by hours, by half an hour, at midnight, by a whole day."""

MODES = ("ANSI", "LEGACY")
_AT_ONCE = 100
_WORD = re.compile(r"[a-z_][a-z_0-9]*")
_OTHER_GROUPS = frozenset({"agg_funcs", "window_funcs", "generator_funcs", "table_funcs"})
_OPERATORS = frozenset({"window", "session_window", "window_time", "json_tuple", "time"})
"""Operators of a query, generators, and the cast to a type that does not run here."""


@dataclass(frozen=True, slots=True)
class Case:
    """An expression with Spark's answer for each row of the batch, or with the reason why Spark rejects it."""

    generated: Generated
    setting: str
    expression: Expression | None = None
    attributes: tuple[Attribute, ...] = ()
    expected: tuple[Answer, ...] = ()
    rejection: str = ""


@dataclass(slots=True)
class Result:
    """Counts of expressions, and the differences."""

    made: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    words: set[str] = field(default_factory=set)
    with_errors: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "made": self.made,
            "compared": sum(self.compared.values()),
            "functions": len(self.compared),
            "not_called": sorted(supported_names() - self.words),
            "raising": self.with_errors,
            "different": len(self.differences),
            "rejected_by_spark": dict(self.rejected),
            "unsupported": dict(self.unsupported.most_common()),
            "differences": self.differences,
        }


def supported_names() -> frozenset[str]:
    """The names of Spark's functions that run here."""
    known = known_expressions()
    return frozenset(
        name
        for name, function in spark_functions().items()
        if function["group"] not in _OTHER_GROUPS
        and name[0].isalpha()
        and name not in _OPERATORS
        and is_supported(function, known)
    )


def edge_batch(seed: int) -> pa.RecordBatch:
    """The rows that all expressions of a seed are evaluated on."""
    return edge_table(table(), seed).combine_chunks().to_batches()[0]


def cases(spark: SparkSession, count: int, seed: int, only: Collection[str] = ()) -> Iterator[Case]:
    """Random expressions with Spark's answers: a quarter in each mode and time zone."""
    months = [
        column_name(kind, copy)
        for kind, type in table().kinds.items()
        if type == "interval year to month"
        for copy in COPIES
    ]
    frame = spark_answers.edge_frame(spark, edge_table(table(), seed), months)
    errors = spark_answers.RowErrors(spark)
    combinations = [(mode, zone) for mode in MODES for zone in ("UTC", ZONES[seed % len(ZONES)])]
    for number, (mode, zone) in enumerate(combinations):
        spark.conf.set("spark.sql.ansi.enabled", str(mode == "ANSI").lower())
        spark.conf.set("spark.sql.session.timeZone", zone)
        generator = Generator(table(), mode, seed * len(combinations) + number, only)
        left = (count + number) // len(combinations)
        while left > 0:
            made = [generator.expression() for _ in range(min(left, _AT_ONCE))]
            left -= len(made)
            yield from _answered(frame, made, f"{mode} {zone}", errors)


def _answered(frame: DataFrame, made: list[Generated], setting: str, errors: spark_answers.RowErrors) -> Iterator[Case]:
    accepted, rejected = spark_answers.analysed(frame, made)
    for generated, reason in rejected:
        yield Case(generated, setting, rejection=reason)
    if not accepted:
        return
    selection = spark_answers.selected(frame, accepted)
    plan = read_plan(selection)
    conditions = errors.of(selection)
    try:
        values = spark_answers.answers(frame, accepted, conditions)
    except (PySparkException, pa.ArrowException) as error:
        if len(accepted) == 1:
            yield Case(accepted[0], setting, rejection=f"no answer: {error}")
            return
        middle = len(accepted) // 2
        yield from _answered(frame, accepted[:middle], setting, errors)
        yield from _answered(frame, accepted[middle:], setting, errors)
        return
    for number, generated in enumerate(accepted):
        expected = comparison.spark_answers(values.column(number).combine_chunks(), conditions[number])
        expression = plan.expressions["projectList"][number]
        yield Case(generated, setting, expression, plan.children[0].output, tuple(expected))


def record(found: Iterable[Case], batch: pa.RecordBatch, path: Path) -> None:
    """Keep Spark's answers, so that they can be compared with again without Spark."""
    with path.open("wb") as file:
        pickle.dump((batch, list(found)), file)


def recorded(path: Path) -> tuple[pa.RecordBatch, list[Case]]:
    """Rows and answers that were kept."""
    with path.open("rb") as file:
        batch, found = pickle.load(file)  # noqa: S301 (the user's own file)
    return batch, found


def compare(found: Iterable[Case], batch: pa.RecordBatch) -> Result:
    """Evaluate each case here."""
    result = Result()
    for case in found:
        result.made += 1
        if case.expression is None:
            result.rejected[case.generated.name] += 1
            result.rejections.append(f"{case.setting}: {case.generated.sql}: {case.rejection[:200]}")
        else:
            _judge(case, case.expression, batch, result)
    return result


def _judge(case: Case, expression: Expression, batch: pa.RecordBatch, result: Result) -> None:
    try:
        found = comparison.own_answers(expression, case.attributes, batch)
    except UnsupportedError as error:
        result.unsupported[str(error).partition(":")[0]] += 1
        return
    except Exception as error:
        found = [("failure", f"{type(error).__name__}: {error}")] * batch.num_rows
    result.compared[case.generated.name] += 1
    result.words.update(_WORD.findall(case.generated.sql.lower()))
    result.with_errors += any(kind == "error" for kind, _ in case.expected)
    exact = case.generated.exact
    rows = [row for row in range(batch.num_rows) if comparison.differs(case.expected[row], found[row], exact)]
    if rows:
        names = sorted({e.arguments["name"] for e in expression.walk() if e.kind == "AttributeReference"})
        result.differences.append(
            {
                "function": case.generated.name,
                "sql": case.generated.sql,
                "setting": case.setting,
                "rows": len(rows),
                "inputs": {name: repr(comparison.plain(batch.column(name))[rows[0]]) for name in names},
                "spark": repr(case.expected[rows[0]]),
                "snapline": repr(found[rows[0]]),
            }
        )

"""The examples of Spark's own documentation, run by Spark and here: `python -m benchmarks.expressions.examples`.

Writes what each built-in function is made of to `src/snapline/devtools/pages/spark_functions.json`, from which
`docs/functions.md` is made, and prints the examples whose results differ.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.expressions.comparison import differs, own_answers, plain
from benchmarks.expressions.spark_answers import session
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from snapline.errors import SnaplineError
from snapline.sql.catalyst.plan_reader import read_plan
from snapline.sql.expressions.registry import UnsupportedError
from snapline.sql.plans.trees import Plan

PAGE_DATA = Path("src/snapline/devtools/pages/spark_functions.json")

_EXAMPLE = re.compile(r"> (SELECT .*?);\s*$", re.MULTILINE | re.DOTALL)
_RANDOM = re.compile(r"rand|uuid|current_|now\(|localtimestamp|shuffle|version\(|monotonic|partition_id|user\(|uniform")
_ELSEWHERE = frozenset({"agg_funcs", "window_funcs", "generator_funcs", "table_funcs"})


@dataclass(frozen=True, slots=True)
class Function:
    """A built-in function of Spark."""

    name: str
    kind: str
    group: str
    examples: tuple[str, ...]


def functions(spark: SparkSession) -> Iterator[Function]:
    """All built-in functions, by name."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    for info in jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos():
        kind = info.getClassName().rpartition(".")[2].rpartition("$")[2]
        yield Function(info.getName(), kind, info.getGroup(), tuple(_EXAMPLE.findall(info.getExamples() or "")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expressions.examples", description=__doc__)
    parser.add_argument("--only", default="", help="functions, such as add_months,substring")
    parser.add_argument("path", nargs="?", type=Path, default=PAGE_DATA)
    options = parser.parse_args()
    only = frozenset(filter(None, options.only.split(",")))
    spark = session()
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        found = {each.name: _entry(spark, each) for each in functions(spark) if not only or each.name in only}
    finally:
        spark.stop()
    return report(found, options.path if not only else None)


def report(found: dict[str, dict[str, Any]], path: Path | None) -> int:
    """Print what differs, and write the rest to a file. Returns the exit status."""
    wrong = [line for entry in found.values() for line in entry.pop("wrong")]
    for line in wrong:
        print(line)
    if path is not None:
        path.write_text(json.dumps(dict(sorted(found.items())), indent=1, sort_keys=True) + "\n")
    return 1 if wrong else 0


def _entry(spark: SparkSession, function: Function) -> dict[str, Any]:
    """The class of a function, its group, and the classes that each of its examples consists of."""
    entry: dict[str, Any] = {"class": function.kind, "group": function.group, "examples": [], "wrong": []}
    if function.group in _ELSEWHERE:
        return entry
    for sql in function.examples:
        try:
            frame = spark.sql(sql)
            plan = read_plan(frame)
        except (PySparkException, Py4JJavaError, SnaplineError):
            # Some examples show an error, need a table, or have a type that Arrow does not have.
            continue
        kinds = {each.kind for part in plan.expressions.get("projectList", ()) for each in part.walk()}
        if kinds and kinds not in [set(known) for known in entry["examples"]]:
            entry["examples"].append(sorted(kinds))
        if plan.kind == "Project" and plan.children[0].kind == "OneRowRelation" and not _RANDOM.search(sql):
            entry["wrong"] += _differences(sql, frame, plan)
    return entry


def _differences(sql: str, frame: DataFrame, plan: Plan) -> Iterator[str]:
    row = pa.RecordBatch.from_arrays([pa.array([0])], names=["row"])
    try:
        table = frame.toArrow()
    except (PySparkException, Py4JJavaError):
        # Some examples show an error.
        return
    for number, expression in enumerate(plan.expressions["projectList"]):
        expected = plain(table.column(number).combine_chunks())[0]
        try:
            answer = own_answers(expression, (), row)[0]
        except UnsupportedError:
            continue
        except Exception as error:
            answer = ("failure", f"{type(error).__name__}: {error}")
        if differs(("value", expected), answer, exact=False):
            yield f"{sql}: Spark {expected!r}, here {answer!r}"


if __name__ == "__main__":
    sys.exit(main())

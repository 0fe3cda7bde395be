"""What Spark answers: the value or the error of each expression for each row."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from importlib.resources import files
from typing import Any

import pyarrow as pa
from benchmarks.expressions.generation import Generated
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import YearMonthIntervalType

_RULES = (
    *("ConstantFolding", "BooleanSimplification", "SimplifyConditionals", "NullPropagation", "SimplifyCasts"),
    *("OptimizeIn", "ReorderAssociativeOperator", "SimplifyBinaryComparison", "PushFoldableIntoBranches"),
    *("UnwrapCastInBinaryComparison", "LikeSimplification", "OptimizeCsvJsonExprs", "ReplaceNullWithFalseInPredicate"),
    *("SimplifyExtractValueOps", "CombineConcats", "ConstantPropagation", "RemoveDispensableExpressions"),
)
"""Rules of the optimiser that drop parts of an expression, and the errors of those parts."""

SETTINGS = {
    "spark.sql.optimizer.excludedRules": ",".join(f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _RULES),
    "spark.sql.alwaysInlineCommonExpr": "true",
}
"""With these, Spark evaluates expressions as they are written."""


def session() -> SparkSession:
    """A small Spark that evaluates expressions as they are written."""
    found = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    found.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True
    for name, value in SETTINGS.items():
        found.conf.set(name, value)
    return found


def edge_frame(spark: SparkSession, table: pa.Table, months: Collection[str]) -> DataFrame:
    """The rows as a relation of literal values; `months` are the columns of year-month intervals."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    columns = {field.name: table.column(field.name) for field in table.schema}
    texts = []
    for name, column in columns.items():
        if pa.types.is_timestamp(column.type):
            columns[name] = pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks])
            made = f"timestamp_micros({name})"
            texts.append(f"{made if column.type.tz else f'cast({made} as timestamp_ntz)'} as {name}")
        else:
            texts.append(f"make_ym_interval(0, {name}) as {name}" if name in months else name)
    plan = spark.createDataFrame(pa.table(columns)).selectExpr(*texts)._jdf.queryExecution().optimizedPlan()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def analysed(frame: DataFrame, expressions: Sequence[Generated]) -> tuple[list[Generated], list[tuple[Generated, str]]]:
    """The expressions that Spark accepts, and the others with the reason."""
    try:
        if expressions:
            selected(frame, expressions)
        return list(expressions), []
    except AnalysisException as error:
        if len(expressions) == 1:
            return [], [(expressions[0], str(error))]
    middle = len(expressions) // 2
    left, right = analysed(frame, expressions[:middle]), analysed(frame, expressions[middle:])
    return left[0] + right[0], left[1] + right[1]


def selected(frame: DataFrame, expressions: Sequence[Generated]) -> DataFrame:
    """The expressions as columns."""
    return frame.selectExpr(*(f"{each.sql} as c{number}" for number, each in enumerate(expressions)))


class RowErrors:
    """Tells which rows raise, and what."""

    def __init__(self, spark: SparkSession) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        jvm = self._jvm = gateway.jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(files("benchmarks.expressions").joinpath("RowErrors.java").read_text())
        written = compiler.getClassLoader().loadClass("snapline.benchmarks.RowErrors")
        constructor = written.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
        self._writer: Any = constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))

    def of(self, frame: DataFrame) -> list[list[str]]:
        """For each column and row the condition of the error, empty for none."""
        plan = frame._jdf.queryExecution().analyzed()
        replaced = self._jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions.apply(plan)
        # Values of the session are only known to the optimiser: here, they cannot be evaluated.
        written = self._writer.write(replaced).replace("INTERNAL_ERROR", "")
        return [line.split(",") for line in written.splitlines()]


def answers(frame: DataFrame, expressions: Sequence[Generated], errors: Sequence[Sequence[str]]) -> pa.Table:
    """The values of the expressions, null for the rows with an error; year-month intervals as months."""
    columns = []
    schema = selected(frame, expressions).schema
    for number, (expression, conditions) in enumerate(zip(expressions, errors, strict=True)):
        bad = [str(row) for row, condition in enumerate(conditions) if condition]
        sql = f"if(row_number in ({', '.join(bad)}), null, {expression.sql})" if bad else expression.sql
        if isinstance(schema[number].dataType, YearMonthIntervalType):
            sql = f"extract(year from {sql}) * 12 + extract(month from {sql})"
        columns.append(f"{sql} as c{number}")
    return frame.selectExpr(*columns).toArrow()

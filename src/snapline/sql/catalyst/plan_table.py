"""A plan of the JVM as one table of plain values: a walk inside the JVM, one call from here."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

Record: TypeAlias = dict[str, Any]
"""One node of the table; `PlanWriter.java` says what it holds."""

_CLASS = "snapline.PlanWriter"

_constructors: dict[int, Any] = {}
"""The writer's constructor for each JVM, by the identity of its gateway."""


@dataclass(frozen=True, slots=True)
class PlanTable:
    """Nodes of a plan, children first; the root is the last one."""

    records: list[Record]
    session: SparkSession
    writer: Any

    def dataframe(self, position: int) -> DataFrame:
        """What the plan's node at a position gives, as a DataFrame that Spark runs."""
        session = self.session._jsparkSession
        jvm = self.session.sparkContext._jvm
        assert jvm is not None
        dataset = jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(session, self.writer.original(position)), self.session)


def plan_table(dataframe: DataFrame) -> PlanTable:
    """The analysed plan of a DataFrame."""
    session = dataframe.sparkSession
    writer = _new_writer(session)
    written = writer.write(dataframe._jdf.queryExecution().analyzed())
    return PlanTable(pickle.loads(bytes(written)), session, writer)  # noqa: S301 (written by our own JVM)


def _new_writer(session: SparkSession) -> Any:
    gateway = session.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.jvm
    constructor = _constructors.get(id(gateway))
    if constructor is None:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(files(__package__).joinpath("PlanWriter.java").read_text())
        written = compiler.getClassLoader().loadClass(_CLASS)
        constructor = written.getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
        _constructors.clear()
        _constructors[id(gateway)] = constructor
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))

"""Data sources written in Python that are registered in a session."""

from __future__ import annotations

from typing import Any

import cloudpickle
from pyspark.sql import SparkSession


def python_data_source(session: SparkSession, name: str) -> Any | None:
    """The class that is registered under this name, or None."""
    manager = session._jsparkSession.sessionState().dataSourceManager()
    if not manager.dataSourceExists(name):
        return None
    found = manager.lookupDataSource(name)
    if not found.getClass().getSimpleName().startswith("UserDefinedPythonDataSource"):
        return None
    jvm: Any = session.sparkContext._jvm
    tags = getattr(getattr(jvm, "scala.reflect.ClassTag$"), "MODULE$")
    return cloudpickle.loads(bytes(found.dataSourceCls().command().toArray(tags.Byte())))

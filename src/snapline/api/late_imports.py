"""The way up from jobs: to Spark and SQL, so that nothing else needs pyspark, and to the planner."""

from __future__ import annotations

import importlib
from typing import Any

from snapline.errors import ConfigurationError


def spark_side(module: str) -> Any:
    """Returns a module of `snapline.spark`; `ConfigurationError` if pyspark is not installed."""
    try:
        return importlib.import_module(f"snapline.spark.{module}")
    except ModuleNotFoundError as error:
        raise _without_pyspark(error) from error


def sql_side(module: str) -> Any:
    """Returns a module of `snapline.sql`; `ConfigurationError` if pyspark is not installed."""
    try:
        return importlib.import_module(f"snapline.sql.{module}")
    except ModuleNotFoundError as error:
        raise _without_pyspark(error) from error


def _without_pyspark(error: ModuleNotFoundError) -> Exception:
    if not (error.name or "").startswith(("pyspark", "py4j")):
        return error
    return ConfigurationError("this needs pyspark, which is not installed: pip install 'snapline[spark]'")


def planner_side(module: str) -> Any:
    """Returns a module of `snapline.graph`, which makes plans of jobs and so imports them."""
    return importlib.import_module(f"snapline.graph.{module}")

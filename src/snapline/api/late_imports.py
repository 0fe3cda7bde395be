"""The way up to `snapline.spark`: imported by name and on demand, so that nothing else needs pyspark."""

from __future__ import annotations

import importlib
from typing import Any

from snapline.errors import ConfigurationError


def spark_side(module: str) -> Any:
    """Returns a module of `snapline.spark`; `ConfigurationError` if pyspark is not installed."""
    try:
        return importlib.import_module(f"snapline.spark.{module}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("pyspark", "py4j")):
            raise
        raise ConfigurationError("this needs pyspark, which is not installed: pip install 'snapline[spark]'") from error

"""The way to pyspark: imported by name and on demand, so that nothing else needs it."""

from __future__ import annotations

import importlib
from typing import Any

from snapline.errors import ConfigurationError


def data_source_types() -> Any:
    """Returns `snapline.spark.data_source_types`; `ConfigurationError` if pyspark is not installed."""
    module = "data_source_types"
    try:
        return importlib.import_module(f"snapline.spark.{module}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("pyspark", "py4j")):
            raise
        raise ConfigurationError(
            "a DataSource needs pyspark, which is not installed: pip install 'snapline[spark]'"
        ) from error

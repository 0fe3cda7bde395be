"""Reaching up, to what needs pyspark and to connectors: found by name, so that nothing below needs them."""

from __future__ import annotations

import importlib
from typing import Any

from snapline.errors import ConfigurationError


def spark_side(module: str) -> Any:
    """A module of `snapline.spark`; `ConfigurationError` if pyspark is not installed."""
    try:
        return importlib.import_module(f"snapline.spark.{module}")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("pyspark", "py4j")):
            raise
        raise ConfigurationError("this needs pyspark, which is not installed: pip install 'snapline[spark]'") from error


def connector(module: str) -> Any:
    """A module of `snapline.connectors`, which is made of what is here."""
    return importlib.import_module(f"snapline.connectors.{module}")

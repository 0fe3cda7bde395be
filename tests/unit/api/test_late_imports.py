"""The way up to Spark: what is missing is told apart from what is broken."""

from __future__ import annotations

import sys
import types

import pytest

from snapline.api.late_imports import planner_side, spark_side
from snapline.errors import ConfigurationError


def test_a_module_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("snapline.spark.invented")
    monkeypatch.setitem(sys.modules, "snapline.spark.invented", module)
    assert spark_side("invented") is module


def test_without_pyspark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("pyspark", "snapline.spark.dataframes"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'snapline\[spark\]'"):
        spark_side("dataframes")


def test_another_missing_module_is_an_error_of_its_own() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"snapline\.spark\.nowhere"):
        spark_side("nowhere")


def test_the_planner_is_found_by_name() -> None:
    assert planner_side("planner").make_spec

"""Which Python runs tasks in local mode."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from snapline.spark.own_interpreter import own_python


class Conf(dict[str, str]):
    def contains(self, name: str) -> bool:
        return name in self


def make_context(master: str = "local[2]", **settings: str) -> Any:
    conf = Conf({name.replace("_", "."): value for name, value in settings.items()})
    return SimpleNamespace(master=master, pythonExec="python3", getConf=lambda: conf)


@pytest.fixture(autouse=True)
def no_named_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)


def used(context: Any) -> str:
    with own_python(context):
        return str(context.pythonExec)


def test_tasks_in_local_mode_run_the_python_of_the_driver() -> None:
    context = make_context()
    assert used(context) == sys.executable
    assert context.pythonExec == "python3"


def test_the_interpreter_is_reset_after_an_error() -> None:
    context = make_context()
    with pytest.raises(ZeroDivisionError), own_python(context):
        raise ZeroDivisionError
    assert context.pythonExec == "python3"


def test_a_cluster_and_a_named_python_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert used(make_context("spark://host:7077")) == "python3"
    assert used(make_context(spark_pyspark_python="/other/python")) == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")
    assert used(make_context()) == "python3"

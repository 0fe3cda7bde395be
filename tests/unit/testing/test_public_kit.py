"""What users import is documented, complete, and brings no development tool along."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import snapline as sl
import snapline.testing

IMPORT_EVERYTHING = """
import importlib, json, pkgutil, sys
import snapline, snapline.testing

for module in (snapline, snapline.testing, snapline.sources, snapline.sinks, snapline.statistics):
    for name in module.__all__:
        getattr(module, name)
for package in ("cli", "web", "connectors", "contracts", "api", "runtime"):
    found = importlib.import_module(f"snapline.{package}")
    for info in pkgutil.walk_packages(getattr(found, "__path__", ()), f"{found.__name__}."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
json.dump(sorted(sys.modules), sys.stdout)
"""


def python(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def test_nothing_that_users_import_imports_a_development_tool() -> None:
    loaded = json.loads(python("-c", IMPORT_EVERYTHING))
    assert "snapline.testing.clusters" in loaded
    assert [name for name in loaded if name.startswith("snapline.devtools")] == []
    assert [name for name in loaded if name.partition(".")[0] in ("pytest", "pyspark", "hypothesis")] == []


def test_importing_the_kit_loads_nothing_yet() -> None:
    loaded = json.loads(python("-c", "import json, sys, snapline.testing; print(json.dumps(sorted(sys.modules)))"))
    assert [name for name in loaded if name.startswith("snapline.")] == ["snapline.testing"]
    assert "pyarrow" not in loaded


def test_every_name_is_there_and_documented() -> None:
    assert set(snapline.testing.__all__) <= set(dir(snapline.testing))
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")
    for name in snapline.testing.__all__:
        assert (getattr(snapline.testing, name).__doc__ or "").strip(), name
        assert f"`{name}`" in page, f"docs/testing.md does not tell of {name}"
    with pytest.raises(AttributeError, match="has no attribute 'Simulator'"):
        snapline.testing.Simulator  # noqa: B018


@pytest.mark.parametrize("name", ["ManualClock", "OperatorHarness", "ScriptedSource", "ThreadCluster"])
def test_the_examples_in_docstrings_run(name: str) -> None:
    job = sl.Job("job")
    source = sl.sources.Iterator([], schema="user STRING, time BIGINT")
    if name == "ThreadCluster":
        job.source(source, uid="rows").sink(sl.sinks.Foreach(print), uid="out")
    kit = {name: getattr(snapline.testing, name) for name in snapline.testing.__all__}
    paragraphs = inspect.cleandoc(getattr(snapline.testing, name).__doc__).split("\n\n")
    (example,) = (textwrap.dedent(text) for text in paragraphs if text.startswith("    "))
    exec(compile(example, name, "exec"), {**kit, "sl": sl, "job": job, "source": source})


@pytest.mark.parametrize("command", ["sim", "replay"])
def test_the_commands_of_the_tools_are_where_they_were(command: str) -> None:
    assert f"usage: python -m snapline.testing.{command}" in python("-m", f"snapline.testing.{command}", "--help")

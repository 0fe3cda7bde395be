"""The source tree keeps its own rules: imports point one way, `protocol/` is pure, nothing unfinished is left.

The rules are the tables below; a new top-level module or folder of the package has to be entered here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapline

SOURCE = Path(snapline.__file__).parent

FACADE = "snapline"
"""The package itself, `snapline/__init__.py`: what `import snapline` gives to users."""

LAYERS = (
    ("types", "errors", "text"),
    ("config",),
    ("protocol",),
    ("state", "storage"),
    ("contracts", "api", "operators"),
    ("graph",),
    ("runtime",),
    ("spark",),
)
"""From the ground up: a layer may import itself, its peers in the same row, and every row before."""


def _may_import() -> dict[str, frozenset[str]]:
    allowed: dict[str, frozenset[str]] = {}
    below: frozenset[str] = frozenset()
    for row in LAYERS:
        below = below.union(row)
        allowed.update(dict.fromkeys(row, below))
    foundation = frozenset({"types", "errors", "text", "config"})
    allowed["connectors"] = foundation | {"state", "storage", "contracts", "api", "connectors"}
    allowed["web"] = foundation | {"protocol", "web"}
    # The job master in the driver serves the page.
    allowed["runtime"] |= {"web"}
    # DataFrames are made of the files that the sink for files has written.
    allowed["spark"] |= {"web", "connectors"}
    everything_but_spark = frozenset(allowed) - {"spark"}
    allowed["testing"] = allowed["devtools"] = everything_but_spark | {"testing", "devtools", "cli", FACADE}
    allowed[FACADE] = everything_but_spark
    allowed["demo"] = frozenset(allowed) | {"demo"}
    allowed["cli"] = allowed["__main__"] = frozenset(allowed) | {"cli"}
    return allowed


MAY_IMPORT = _may_import()

STANDARD_LIBRARY_ONLY = frozenset({"types", "errors", "text", "config"})
"""What `protocol/` stands on: a third-party package here would reach it by the back door."""

PROTOCOL_MODULES = frozenset(
    {
        "__future__",
        "abc",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "heapq",
        "itertools",
        "math",
        "operator",
        "types",
        "typing",
    }
)
"""All that `protocol/` may take from outside the package: data, no clock, thread, file, socket, chance or log."""

IMPURE_BUILTINS = frozenset({"open", "print", "input", "hash", "id"})
"""Not in `protocol/`: input and output, and values that differ from one process to the next."""

MAX_LINES = 600


def import_violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What in the source of `module` (a dotted name under `snapline`) breaks the rules, one line each."""
    layer = _layer_of(module)
    if layer not in MAY_IMPORT:
        return [f"{module}: «{layer}» has no place among the layers; enter it in tests/unit/test_layers.py"]
    tree = ast.parse(source, filename=module)
    package = module if is_package else module.rpartition(".")[0]
    found = [
        (line, problem)
        for line, imported in _imports(tree, package)
        if (problem := _import_problem(layer, imported)) is not None
    ]
    if layer == "protocol":
        found += [(line, f"{name}() is not pure; protocol/ may not use it") for line, name in _impure_builtins(tree)]
    return [f"{module}:{line}: {problem}" for line, problem in sorted(found)]


def leftovers(module: str, source: str) -> list[str]:
    """What in the source of `module` looks unfinished or forgotten, one line each."""
    lines = source.splitlines()
    found = [
        (number, f"leftover {match.group()}")
        for number, line in enumerate(lines, start=1)
        for match in re.finditer(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", line)
    ]
    if not (_layer_of(module) in ("cli", "testing", "devtools") or module.endswith(".__main__")):
        found += [
            (node.lineno, "print() outside the command line and the test kit")
            for node in ast.walk(ast.parse(source, filename=module))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        ]
    if len(lines) > MAX_LINES:
        found.append((len(lines), f"{len(lines)} lines; split it, {MAX_LINES} is the limit"))
    return [f"{module}:{number}: {problem}" for number, problem in sorted(found)]


def _layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else FACADE


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported, at the top of the module or anywhere inside it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node.module or "", node.level, package)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__"):
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                level = len(name.value) - len(name.value.lstrip("."))
                yield node.lineno, _resolve(name.value.lstrip("."), level, package)


def _resolve(name: str, level: int, package: str) -> str:
    """The absolute name of what is imported from `level` dots and `name` inside `package`."""
    if level == 0:
        return name
    parts = package.split(".")
    assert level <= len(parts), f"relative import leads out of the package: {'.' * level}{name} in {package}"
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [name])])


def _import_problem(layer: str, imported: str) -> str | None:
    root, _, rest = imported.partition(".")
    if root == "snapline":
        target = rest.partition(".")[0]
        target = target if target in MAY_IMPORT else FACADE
        return None if target in MAY_IMPORT[layer] else f"{layer} may not import {target} (imports {imported})"
    if root == "pyspark":
        return None if layer == "spark" else f"only spark/ may import pyspark (imports {imported})"
    if layer == "protocol" and root not in PROTOCOL_MODULES:
        return f"protocol/ may not import {root}; it takes only data modules of the standard library"
    if layer in STANDARD_LIBRARY_ONLY and root not in sys.stdlib_module_names:
        return f"{layer} may not import {root}; it takes only the standard library"
    return None


def _impure_builtins(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
            for used in (node.func, *keys):
                if isinstance(used, ast.Name) and used.id in IMPURE_BUILTINS:
                    yield used.lineno, used.id


def _called_name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def _tree() -> Iterator[tuple[str, str, bool]]:
    """Name, text and whether it is a package, of every module in the source tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("snapline", *path.relative_to(SOURCE).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if is_package else parts), path.read_text(encoding="utf-8"), is_package


def test_imports_in_the_source_tree_point_one_way() -> None:
    problems = [
        problem
        for module, source, is_package in _tree()
        for problem in import_violations(module, source, is_package=is_package)
    ]
    assert not problems, "\n".join(problems)


def test_nothing_is_left_over_in_the_source_tree() -> None:
    problems = [problem for module, source, _ in _tree() for problem in leftovers(module, source)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("snapline.protocol.commit", "import time", "may not import time"),
        ("snapline.protocol.commit", "from random import Random", "may not import random"),
        ("snapline.protocol.commit", "import logging", "may not import logging"),
        ("snapline.protocol.commit", "import hashlib", "may not import hashlib"),
        ("snapline.protocol.commit", "import os.path", "may not import os"),
        ("snapline.protocol.commit", "import pyarrow as pa", "may not import pyarrow"),
        (
            "snapline.protocol.commit",
            "from snapline.runtime import x",
            "protocol may not import runtime",
        ),
        (
            "snapline.protocol.commit",
            "import snapline.state.backends",
            "protocol may not import state",
        ),
        (
            "snapline.protocol.commit",
            "from snapline import storage",
            "protocol may not import storage",
        ),
        ("snapline.protocol.commit", "from snapline import Job", "protocol may not import snapline"),
        ("snapline.protocol.commit", "import snapline", "protocol may not import snapline"),
        ("snapline.protocol.commit", "from .. import runtime", "protocol may not import runtime"),
        ("snapline.protocol.commit", "from ..web.rest import routes", "protocol may not import web"),
        ("snapline.protocol.deep.inner", "from ...graph import plan", "protocol may not import graph"),
        ("snapline.protocol.commit", "__import__('threading')", "may not import threading"),
        (
            "snapline.protocol.commit",
            "def f():\n    import socket",
            "2: protocol/ may not import socket",
        ),
        ("snapline.types", "from snapline.config import Config", "types may not import config"),
        ("snapline.config", "from snapline.protocol import machine", "config may not import protocol"),
        ("snapline.config", "import pyarrow", "config may not import pyarrow"),
        ("snapline.state.timers", "def f():\n    import pyspark", "2: only spark/ may import pyspark"),
        ("snapline.state.timers", "def f():\n    from pyspark.sql import Row", "only spark/ may import pyspark"),
        ("snapline.state.timers", "importlib.import_module('pyspark.sql')", "only spark/ may import pyspark"),
        ("snapline.state.timers", "import_module('..api', __package__)", "state may not import api"),
        ("snapline.storage.stores", "from snapline.api import Sink", "storage may not import api"),
        ("snapline.api.job", "from snapline.graph import plan", "api may not import graph"),
        ("snapline.operators.join", "from snapline.runtime import task", "operators may not import runtime"),
        ("snapline.graph.execution_plan", "from ..runtime import task", "graph may not import runtime"),
        ("snapline.runtime.master", "from snapline.spark import launcher", "runtime may not import spark"),
        (
            "snapline.connectors.rate",
            "from snapline.runtime import task",
            "connectors may not import runtime",
        ),
        (
            "snapline.connectors.rate",
            "from snapline.protocol import machine",
            "connectors may not import protocol",
        ),
        ("snapline.web.rest", "from snapline.runtime import master", "web may not import runtime"),
        ("snapline.testing.sim", "from snapline.spark import launcher", "testing may not import spark"),
        ("snapline.testing.sim", "import pyspark", "only spark/ may import pyspark"),
        ("snapline.runtime.task", "from snapline.testing import sim", "runtime may not import testing"),
        ("snapline.cli", "import pyspark", "only spark/ may import pyspark"),
        ("snapline.demo.run", "import pyspark", "only spark/ may import pyspark"),
        ("snapline.demo.run", "from snapline import cli", "demo may not import cli"),
        ("snapline.helpers", "", "has no place among the layers"),
    ],
)
def test_a_wrong_import_is_reported(module: str, source: str, complaint: str) -> None:
    (problem,) = import_violations(module, source)
    assert problem.startswith(module)
    assert complaint in problem


def test_relative_imports_of_a_package_start_at_the_package_itself() -> None:
    assert import_violations("snapline.protocol", "from . import machine", is_package=True) == []
    (problem,) = import_violations("snapline.protocol", "from .. import runtime", is_package=True)
    assert "protocol may not import runtime" in problem
    (problem,) = import_violations("snapline", "from .spark import launcher", is_package=True)
    assert "snapline may not import spark" in problem


@pytest.mark.parametrize("name", sorted(IMPURE_BUILTINS))
def test_an_impure_builtin_in_protocol_is_reported(name: str) -> None:
    for use in (f"{name}(x)", f"sorted(xs, key={name})"):
        (problem,) = import_violations("snapline.protocol.commit", f"x = 1\n{use}\n")
        assert problem == f"snapline.protocol.commit:2: {name}() is not pure; protocol/ may not use it"
    assert import_violations("snapline.runtime.task", f"{name}(x)\n") == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "snapline.protocol.commit",
            "from __future__ import annotations\nfrom collections.abc import Iterable",
        ),
        (
            "snapline.protocol.commit",
            "from snapline.protocol.machine import TransitionTable\nimport snapline.types",
        ),
        (
            "snapline.protocol.commit",
            "from .machine import TransitionTable\nfrom .. import errors, types",
        ),
        ("snapline.protocol.commit", "def f(id: int) -> int:\n    return barrier.id + id"),
        ("snapline.config", "import re\nfrom snapline.errors import ConfigurationError"),
        ("snapline.state.keyed", "import pyarrow\nfrom snapline.storage import handles"),
        ("snapline.operators.join", "from snapline.api import functions"),
        ("snapline.connectors.rate", "import pyarrow\nfrom snapline.api import Source"),
        ("snapline.runtime.master", "import threading\nfrom snapline.web import server"),
        ("snapline.spark.launcher", "import pyspark\nfrom snapline.runtime import master"),
        ("snapline.testing.kit", "import snapline as sl\nfrom snapline.runtime import task"),
        ("snapline", "from snapline.api import Job"),
        ("snapline.cli", "from snapline.spark import launcher\nfrom snapline.testing import sim"),
        ("snapline.demo.run", "from snapline.spark import launcher\nfrom snapline.testing import sim"),
    ],
)
def test_a_right_import_is_not_reported(module: str, source: str) -> None:
    assert import_violations(module, source) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("snapline.state.timers", "x = 1  # TODO: more", "snapline.state.timers:1: leftover TODO"),
        ("snapline.state.timers", "\n# FIXME", "snapline.state.timers:2: leftover FIXME"),
        ("snapline.state.timers", '"""XXX"""', "snapline.state.timers:1: leftover XXX"),
        ("snapline.cli", "raise NotImplementedError", "snapline.cli:1: leftover NotImplementedError"),
        ("snapline.web.rest", "print(1)", "snapline.web.rest:1: print() outside the command line and the test kit"),
        ("snapline.web.rest", "\n" * 601, "snapline.web.rest:601: 601 lines; split it, 600 is the limit"),
    ],
)
def test_a_leftover_is_reported(module: str, source: str, complaint: str) -> None:
    assert leftovers(module, source) == [complaint]


@pytest.mark.parametrize("module", ["snapline.cli", "snapline.testing.replay", "snapline.web.__main__"])
def test_programs_may_print(module: str) -> None:
    assert leftovers(module, "print(1)\n" * MAX_LINES) == []

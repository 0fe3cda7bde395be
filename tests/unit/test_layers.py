"""The source tree keeps its own rules: imports point one way, `protocol/` is pure, names are unique and plain.

The rules are the tables below; enter every new top-level module or folder of the package here, and every import by a
name that is computed.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import snapline

SOURCE = Path(snapline.__file__).parent

FACADE = "snapline"
"""The package itself, `snapline/__init__.py`: what `import snapline` gives to users."""

COMPUTED = "computed:"

LAYERS = (
    ("types", "errors", "text"),
    ("config",),
    ("protocol",),
    ("state", "storage"),
    ("contracts",),
    ("operators",),
    ("api",),
    ("graph",),
    ("runtime",),
    ("spark",),
    ("sql",),
)
"""From the ground up: a layer may import itself and every row before. Peers of a row may not form a cycle."""


def _may_import() -> dict[str, frozenset[str]]:
    allowed: dict[str, frozenset[str]] = {}
    below: frozenset[str] = frozenset()
    for row in LAYERS:
        below = below.union(row)
        allowed.update(dict.fromkeys(row, below))
    foundation = frozenset({"types", "errors", "text", "config"})
    allowed["connectors"] = foundation | {"state", "storage", "contracts", "connectors"}
    # `Stream.collect` writes to a sink of its own.
    allowed["api"] |= {"connectors"}
    allowed["web"] = foundation | {"protocol", "web"}
    # The job master in the driver serves the page.
    allowed["runtime"] |= {"web"}
    # DataFrames are read from files that the file sink wrote.
    allowed["spark"] |= {"web", "connectors"}
    # A query is made of sources, operators and sinks, and its Python functions are called as Spark does.
    allowed["sql"] |= {"connectors"}
    everything_but_spark = frozenset(allowed) - {"spark", "sql"}
    allowed[FACADE] = everything_but_spark
    allowed["testing"] = everything_but_spark | {"testing", FACADE}
    # The table of functions in the docs is made from the expressions that there are.
    allowed["devtools"] = allowed["testing"] | {"devtools", "cli", "sql"}
    allowed["demo"] = frozenset(allowed) | {"demo"}
    allowed["cli"] = allowed["__main__"] = frozenset(allowed) | {"cli"}
    return allowed


MAY_IMPORT = _may_import()

STANDARD_LIBRARY_ONLY = frozenset({"types", "errors", "text", "config"})
"""`protocol/` stands on these: a third-party package here would reach it indirectly."""

PROTOCOL_MODULES = frozenset(
    {
        "__future__",
        "abc",
        "array",
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
        "zlib",
    }
)
"""All that `protocol/` may import from outside the package: data, no clock, thread, file, socket, randomness or log."""

IMPURE_BUILTINS = frozenset({"open", "print", "input", "hash", "id"})
"""Not in `protocol/`: input and output, and values that differ between processes."""

COMMANDS = frozenset({"snapline.testing.sim", "snapline.testing.replay"})
"""Public names of programs in devtools. Nothing imports them, so each counts as a package of its own."""

LATE_IMPORTS: Mapping[tuple[str, str], str] = {
    ("snapline", "f'{__name__}.{_NAMESPACES[name]}'"): "public namespaces, loaded on first use",
    ("snapline", "f'{__name__}.{_WHERE[name]}'"): "public names, loaded on first use",
    ("snapline.testing", "f'{__name__}.{_WHERE[name]}'"): "public names, loaded on first use",
    ("snapline.api.late_imports", "f'snapline.spark.{module}'"): "the way up from streams and jobs to pyspark",
    ("snapline.api.late_imports", "f'snapline.sql.{module}'"): "the way up from jobs to queries, which need pyspark",
    (
        "snapline.api.late_imports",
        "f'snapline.graph.{module}'",
    ): "the way up from a job that explains itself to its plan",
    (
        "snapline.connectors.data_source.late_pyspark",
        "f'snapline.spark.{module}'",
    ): "data sources of users, which are pyspark's",
    ("snapline.connectors.database.database_driver", "package"): "the modules of a user's database driver",
    ("snapline.operators.batch_formats", "package"): "pandas or polars, if the user asks for them",
    ("snapline.devtools.chaos.chaos_driver", "_EMBEDDED_SPARK"): "the only way from devtools to pyspark",
    ("snapline.devtools.kit.forked_programs", "module"): "what its programs would load one by one",
    ("snapline.devtools.pages.machines_page", "info.name"): "every module of protocol/",
    ("snapline.devtools.simulator.line_coverage", "module"): "the shells whose lines it counts",
}
"""Imports by a computed name, by module and expression, each with its reason. They do not count as dependencies.

A computed name that is not in this table is an error; one with a constant beginning (`f"snapline.web.{page}"`) that is
not in this table counts as an import of that package.
"""

NOUNS = frozenset({"listing"})
"""Nouns in -ing; any other such word at the end of a module name is a gerund."""

MAX_LINES = 450


def import_violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Import rules that the source of `module` (a dotted name under `snapline`) breaks, one line each."""
    layer = "devtools" if module in COMMANDS else _layer_of(module)
    if layer not in MAY_IMPORT:
        return [f"{module}: {layer!r} has no place among the layers; enter it in tests/unit/test_layers.py"]
    nodes = _nodes(source)
    package = module if is_package else module.rpartition(".")[0]
    found = [
        (line, problem)
        for line, imported in _imports(nodes, package, module)
        if (problem := _import_problem(layer, imported)) is not None
    ]
    if layer == "protocol":
        found += [(line, f"{name}() is not pure; protocol/ may not use it") for line, name in _impure_builtins(nodes)]
    return [f"{module}:{line}: {problem}" for line, problem in sorted(found)]


def leftovers(module: str, source: str) -> list[str]:
    """Unfinished or forgotten things in the source of `module`, one line each."""
    lines = source.splitlines()
    found = [
        (number, f"leftover {match.group()}")
        for number, line in enumerate(lines, start=1)
        for match in re.finditer(r"\b(?:TODO|FIXME|XXX|NotImplementedError)\b", line)
    ]
    if not (_layer_of(module) in ("cli", "testing", "devtools") or module.endswith(".__main__")):
        found += [
            (node.lineno, "print() outside the command line and the test kit")
            for node in _nodes(source)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        ]
    if len(lines) > MAX_LINES:
        found.append((len(lines), f"{len(lines)} lines; split it, {MAX_LINES} is the limit"))
    return [f"{module}:{number}: {problem}" for number, problem in sorted(found)]


def package_cycles(modules: Iterable[tuple[str, str, bool]]) -> list[str]:
    """Packages that import each other, directly or by way of others, one cycle a line with an import for each step.

    `modules` are names, texts and whether each is a package. A folder with all its modules is one package; a
    subfolder is another; modules directly under `snapline`, programs and `COMMANDS` stand for themselves.
    """
    modules = list(modules)
    known = {module: is_package for module, _, is_package in modules}
    edges: dict[str, dict[str, str]] = {}
    for module, source, is_package in modules:
        for line, imported in _imports(_nodes(source), module if is_package else module.rpartition(".")[0], module):
            while imported and imported not in known:
                imported = imported.rpartition(".")[0]
            if imported:
                here, there = _package_of(module, is_package), _package_of(imported, known[imported])
                edges.setdefault(here, {}).setdefault(there, f"{module}:{line} imports {imported}")
    return [
        "; ".join(edges[here][there] for here, there in itertools.pairwise([*cycle, cycle[0]]))
        for cycle in _cycles({here: [there for there in found if there != here] for here, found in edges.items()})
    ]


def _package_of(module: str, is_package: bool) -> str:
    parent, _, name = module.rpartition(".")
    is_alone = is_package or parent == "snapline" or name == "__main__" or module in COMMANDS
    return module if is_alone else parent


def _cycles(edges: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """For each node that lies on a cycle through nodes not yet reported, a shortest one."""
    reported: set[str] = set()
    for start in sorted(edges):
        paths = deque([[start]])
        seen = set(reported)
        while paths:
            path = paths.popleft()
            following = sorted(edges.get(path[-1], ()))
            if start in following and start not in reported:
                yield path
                reported.update(path)
                break
            paths.extend([*path, node] for node in following if node not in seen)
            seen.update(following)


def name_problems(modules: Iterable[str]) -> list[str]:
    """Modules with a name that another has too, or that is a gerund."""
    by_name: dict[str, list[str]] = {}
    for module in modules:
        by_name.setdefault(module.rpartition(".")[2], []).append(module)
    return [
        *(f"{' and '.join(same)} have the same name" for same in by_name.values() if len(same) > 1),
        *(
            f"{module} is named by a gerund; use a noun"
            for name, (module, *_) in by_name.items()
            if (word := name.rpartition("_")[2]).endswith("ing") and word not in NOUNS
        ),
    ]


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """Trees of all sources, which every later collection of garbage would go through."""
    yield
    _nodes.cache_clear()
    _tree.cache_clear()


def _layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else FACADE


@cache
def _nodes(source: str) -> tuple[ast.AST, ...]:
    """The imports and calls in a source text, which is all that the rules look at."""
    return tuple(
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    )


def _imports(nodes: Iterable[ast.AST], package: str, module: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported anywhere in the module, but for `LATE_IMPORTS`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = _resolve(node.module or "", node.level, package)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__"):
            written = ast.unparse(node.args[0]) if node.args else "nothing"
            name = _constant_name(node.args[0]) if node.args else ""
            if (module, written) in LATE_IMPORTS:
                continue
            level = len(name) - len(name.lstrip("."))
            yield node.lineno, _resolve(name.lstrip("."), level, package) if name else f"{COMPUTED}{written}"


def _constant_name(name: ast.expr) -> str:
    """What a dynamic import is known to import: its name, or the packages that an f-string begins with."""
    if isinstance(name, ast.JoinedStr) and name.values and isinstance(name.values[0], ast.Constant):
        return str(name.values[0].value).rpartition(".")[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def _resolve(name: str, level: int, package: str) -> str:
    """The absolute name of what is imported from `level` dots and `name` inside `package`."""
    if level == 0:
        return name
    parts = package.split(".")
    assert level <= len(parts), f"relative import leads out of the package: {'.' * level}{name} in {package}"
    return ".".join([*parts[: len(parts) - level + 1], *filter(None, [name])])


def _import_problem(layer: str, imported: str) -> str | None:
    if imported.startswith(COMPUTED):
        return f"imports {imported.removeprefix(COMPUTED)}, a computed name; enter it in LATE_IMPORTS"
    if imported.startswith(tuple(COMMANDS)):
        return f"{imported} is a program; import what it runs"
    root, _, rest = imported.partition(".")
    if root == "snapline":
        target = rest.partition(".")[0]
        target = target if target in MAY_IMPORT else FACADE
        return None if target in MAY_IMPORT[layer] else f"{layer} may not import {target} (imports {imported})"
    if root == "pyspark":
        return None if layer in ("spark", "sql") else f"only spark/ may import pyspark (imports {imported})"
    if layer == "protocol" and root not in PROTOCOL_MODULES:
        return f"protocol/ may not import {root}; it takes only data modules of the standard library"
    if layer in STANDARD_LIBRARY_ONLY and root not in sys.stdlib_module_names:
        return f"{layer} may not import {root}; it takes only the standard library"
    return None


def _impure_builtins(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call):
            keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
            for used in (node.func, *keys):
                if isinstance(used, ast.Name) and used.id in IMPURE_BUILTINS:
                    yield used.lineno, used.id


def _called_name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


@cache
def _tree() -> list[tuple[str, str, bool]]:
    """Name, text and whether it is a package, of every module in the source tree."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("snapline", *path.relative_to(SOURCE).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found.append((".".join(parts[:-1] if is_package else parts), path.read_text(encoding="utf-8"), is_package))
    return found


def test_imports_in_the_source_tree_point_one_way() -> None:
    problems = [
        problem
        for module, source, is_package in _tree()
        for problem in import_violations(module, source, is_package=is_package)
    ]
    assert not problems, "\n".join(problems)


def test_packages_import_each_other_in_no_cycle() -> None:
    assert not (found := package_cycles(_tree())), "\n".join(found)


def test_plans_and_expressions_know_nothing_of_spark() -> None:
    problems = [
        f"{module}:{line} imports {imported}"
        for module, source, is_package in _tree()
        if module.startswith(("snapline.sql.plans", "snapline.sql.expressions"))
        for line, imported in _imports(_nodes(source), module if is_package else module.rpartition(".")[0], module)
        if imported.startswith(("pyspark", "py4j", "snapline.spark", "snapline.sql.catalyst", "snapline.sql.lowering"))
    ]
    assert not problems, "\n".join(problems)


def test_names_of_modules_are_unique_nouns() -> None:
    modules = [module for module, _, is_package in _tree() if not is_package and not module.endswith(".__main__")]
    assert not (problems := name_problems(modules)), "\n".join(problems)


def test_late_imports_are_all_there() -> None:
    written = {
        (module, ast.unparse(node.args[0]))
        for module, source, _ in _tree()
        for node in _nodes(source)
        if isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__")
    }
    assert set(LATE_IMPORTS) <= written, "take entries out of LATE_IMPORTS that nothing needs any more"


@pytest.mark.parametrize(
    ("sources", "steps"),
    [
        ({"snapline.a.x": "import snapline.b.y", "snapline.b.y": "from snapline import types"}, []),
        ({"snapline.a.x": "from snapline.a.y import z", "snapline.a.y": "from snapline.a.x import w"}, []),
        (
            {"snapline.a.x": "from snapline.b import y", "snapline.b.y": "def f():\n    from snapline.a.x import w"},
            ["snapline.a.x:1 imports snapline.b.y; snapline.b.y:2 imports snapline.a.x"],
        ),
        (
            {"snapline.a.x": "import snapline.a.b.y", "snapline.a.b.y": "from snapline.a import x"},
            ["snapline.a.x:1 imports snapline.a.b.y; snapline.a.b.y:1 imports snapline.a.x"],
        ),
        (
            {
                "snapline.a.x": "import snapline.b.y",
                "snapline.b.y": "if TYPE_CHECKING:\n    from snapline.c.z import w",
                "snapline.c.z": "importlib.import_module('snapline.a.x')",
            },
            [
                "snapline.a.x:1 imports snapline.b.y; snapline.b.y:2 imports snapline.c.z; "
                "snapline.c.z:1 imports snapline.a.x"
            ],
        ),
        (
            {"snapline.a.x": "from snapline.b.y import z", "snapline.b.y": "import_module(f'snapline.a.{name}')"},
            ["snapline.a.x:1 imports snapline.b.y; snapline.b.y:1 imports snapline.a"],
        ),
        (
            {"snapline.types": "import snapline.errors", "snapline.errors": "from snapline.types import x"},
            ["snapline.errors:1 imports snapline.types; snapline.types:1 imports snapline.errors"],
        ),
        ({"snapline.testing.sim": "import snapline.c.z", "snapline.c.z": "import snapline.testing.kit"}, []),
    ],
)
def test_a_cycle_of_packages_is_reported(sources: dict[str, str], steps: list[str]) -> None:
    packages = ["snapline", "snapline.a", "snapline.a.b", "snapline.b", "snapline.c", "snapline.testing"]
    others = [("snapline.testing.kit", "", False), *((package, "", True) for package in packages)]
    assert package_cycles([*((name, source, False) for name, source in sources.items()), *others]) == steps


def test_a_wrong_name_is_reported() -> None:
    assert name_problems(["snapline.a.x", "snapline.b.x"]) == ["snapline.a.x and snapline.b.x have the same name"]
    assert name_problems(["snapline.a.row_batching"]) == ["snapline.a.row_batching is named by a gerund; use a noun"]
    assert name_problems(["snapline.a.x", "snapline.a.y", "snapline.a.file_listing"]) == []


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
        ("snapline.contracts.sink", "import snapline.operators.transforms", "contracts may not import operators"),
        ("snapline.contracts.sink", "from ..api import stream", "contracts may not import api"),
        ("snapline.operators.join", "from snapline.api import windows", "operators may not import api"),
        ("snapline.operators.join", "import_module(f'snapline.api.{name}')", "operators may not import api"),
        ("snapline.operators.join", "import_module(name)", "imports name, a computed name; enter it in LATE_IMPORTS"),
        ("snapline.connectors.rate", "from snapline.api import Source", "connectors may not import api"),
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
        ("snapline.testing.clusters", "from snapline.spark import launcher", "testing may not import spark"),
        ("snapline.testing.sim", "import pyspark", "only spark/ may import pyspark"),
        ("snapline.testing.clusters", "from snapline.devtools import kit", "testing may not import devtools"),
        ("snapline.devtools.kit", "from snapline.testing.sim import main", "is a program; import what it runs"),
        ("snapline.runtime.task", "from snapline.testing import clusters", "runtime may not import testing"),
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
        ("snapline.operators.join", "from snapline.contracts import functions"),
        ("snapline.api.stream", "from snapline.operators import transforms\nfrom snapline.connectors import sinks"),
        ("snapline.api.late_imports", "import_module(f'snapline.spark.{module}')"),
        ("snapline.connectors.rate", "import pyarrow\nfrom snapline.contracts import source"),
        ("snapline.testing.sim", "from snapline.devtools.simulator import simulator_command"),
        ("snapline.runtime.master", "import threading\nfrom snapline.web import server"),
        ("snapline.spark.launcher", "import pyspark\nfrom snapline.runtime import master"),
        ("snapline.testing.kit", "import snapline as sl\nfrom snapline.runtime import task"),
        ("snapline", "from snapline.api import Job"),
        ("snapline.cli", "from snapline.spark import launcher\nfrom snapline.testing import clusters"),
        ("snapline.demo.run", "from snapline.spark import launcher\nfrom snapline.testing import clusters"),
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
        ("snapline.web.rest", "\n" * 451, "snapline.web.rest:451: 451 lines; split it, 450 is the limit"),
    ],
)
def test_a_leftover_is_reported(module: str, source: str, complaint: str) -> None:
    assert leftovers(module, source) == [complaint]


@pytest.mark.parametrize("module", ["snapline.cli", "snapline.testing.replay", "snapline.web.__main__"])
def test_programs_may_print(module: str) -> None:
    assert leftovers(module, "print(1)\n" * MAX_LINES) == []

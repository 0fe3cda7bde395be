"""The API reference, made from the docstrings: `python -m snapline.devtools.pages.reference_page`."""

from __future__ import annotations

import argparse
import ast
import enum
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import snapline
import snapline.testing
from snapline.errors import EngineError

DEFAULT_PATH = Path("docs/reference.md")

_CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Jobs",
        (
            "api.job",
            "api.job_handle",
            "api.job_plan",
            "api.streaming_queries",
            "contracts.master_hook",
            "runtime.job_logs",
            "types",
        ),
    ),
    ("Statistics", ("protocol.statistics",)),
    ("Streams", ("api.stream", "api.keyed_stream", "api.connected_streams", "api.windowed_stream")),
    ("Windows and event time", ("api.windows",)),
    ("Aggregates", ("api.aggregates", "operators.aggregates")),
    (
        "Functions and operators",
        (
            "contracts.functions",
            "contracts.contexts",
            "contracts.operator",
            "contracts.operator_coordinator",
            "contracts.schemas",
        ),
    ),
    ("Sources", ("contracts.source", "connectors.sources")),
    ("Formats", ("connectors.formats",)),
    ("Sinks", ("contracts.sink", "contracts.transaction_sink", "connectors.sinks")),
    ("State", ("state",)),
    ("Settings", ("config",)),
    ("Errors", ("errors",)),
    ("Testing", ("testing",)),
)
"""The chapters, and the modules that make each up, without `snapline.`; a package stands for all its modules."""

GIVEN = frozenset(
    {
        "api.connected_streams",
        "api.job_plan",
        "api.keyed_stream",
        "api.stream",
        "api.windowed_stream",
        "contracts.contexts",
        "contracts.operator",
        "contracts.operator_coordinator",
        "state.collection_states",
        "state.operator_state",
        "state.timers",
        "state.value_states",
    }
)
"""Modules whose classes users never construct: the page leaves their constructors out."""

FOR_THE_ENGINE = {
    "BroadcastState": frozenset({"contents", "is_declared_as", "restore"}),
    "OperatorList": frozenset({"contents", "is_declared_as", "restore"}),
    "OperatorStates": frozenset({"restore", "snapshot"}),
    "ProcessCluster": frozenset({"provider"}),
    "RawOperatorState": frozenset({"contents", "is_declared_as", "restore"}),
    "ThreadCluster": frozenset({"provider"}),
    "Timers": frozenset({"check_namespace", "freeze"}),
}
"""Methods that only the runtime calls: the page leaves them out."""

_NOISE = re.compile(r" at 0x[0-9a-f]+|'")
_FORWARD = re.compile(r"ForwardRef\((\w+)\)")


def render_page() -> str:
    """The page. Every public name is on it once."""
    chapters: dict[str, list[str]] = {title: [] for title, _ in _CHAPTERS}
    for name, module, found in public_names():
        chapters[_chapter(module, name)] += _entry(name, module, found)
    lines = [
        "# API reference",
        "",
        "Made from the docstrings by `make docs`: do not edit. What things are for, with examples, is on "
        "[api.md](api.md).",
        "",
        *(f"- [{title}](#{title.lower().replace(' ', '-')})" for title in chapters),
    ]
    for title, entries in chapters.items():
        lines += ["", f"## {title}", *entries]
    return "\n".join(lines) + "\n"


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Every public name as users write it, the module it comes from without `snapline.`, and what it stands for."""
    for name, module in sorted(snapline._WHERE.items()):
        yield f"snapline.{name}", module, getattr(snapline, name)
    for namespace, module in sorted(snapline._NAMESPACES.items()):
        found = importlib.import_module(f"snapline.{module}")
        for name in sorted(found.__all__):
            yield f"snapline.{namespace}.{name}", module, getattr(found, name)
    for name, module in sorted(snapline.testing._WHERE.items()):
        yield f"snapline.testing.{name}", f"testing.{module}", getattr(snapline.testing, name)


def _chapter(module: str, name: str) -> str:
    for title, modules in _CHAPTERS:
        if any(module == known or module.startswith(f"{known}.") for known in modules):
            return title
    raise EngineError(f"{name} comes from {module}, which no chapter of the reference has; enter it in {__name__}")


def _entry(name: str, module: str, found: Any) -> list[str]:
    if inspect.isfunction(found):
        return _function(f"### `{name}`", name.rpartition(".")[2], found)
    lines = ["", f"### `{name}`", ""]
    if not inspect.isclass(found) or found is Any:
        return [*lines, *_assignment(name.rpartition(".")[2], module)]
    if issubclass(found, enum.Enum):
        return [*lines, *_text(found), "", "Values: " + ", ".join(f"`{member.name}`" for member in found) + "."]
    is_made_by_users = not inspect.isabstract(found) and not getattr(found, "_is_protocol", False)
    if is_made_by_users and not issubclass(found, Exception) and module not in GIVEN:
        lines += _code(name, found)
    lines += _text(found)
    for member, value in _members(found):
        if isinstance(value, property):
            lines += ["", f"#### `{found.__name__}.{member}`", "", *_text(value)]
        else:
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            lines += _function(f"#### `{found.__name__}.{member}`", f"{found.__name__}.{member}", plain)
    return lines


def _assignment(name: str, module: str) -> list[str]:
    """How an alias or constant is assigned, and the text below it: it has no docstring by itself."""
    home = Path(inspect.getfile(importlib.import_module(f"snapline.{module}")))
    files = sorted(home.parent.glob("*.py")) if home.name == "__init__.py" else [home]
    for statement, below in itertools.pairwise(itertools.chain.from_iterable(map(_statements, files))):
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == name and statement.value:
            lines = ["```python", f"{name} = {ast.unparse(statement.value)}", "```", ""]
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                lines += inspect.cleandoc(str(below.value.value)).splitlines()
            return lines
    raise EngineError(f"{name} is not assigned in snapline.{module}")


def _statements(file: Path) -> list[ast.stmt]:
    return [*ast.parse(file.read_text(encoding="utf-8")).body, ast.Pass()]


def _members(found: type) -> list[tuple[str, Any]]:
    """The public methods and properties of a class and its bases in this package, in order."""
    members: dict[str, Any] = {}
    left_out = FOR_THE_ENGINE.get(found.__name__, frozenset())
    for base in reversed(found.__mro__):
        if not base.__module__.startswith("snapline"):
            continue
        for name, value in vars(base).items():
            is_member = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if not name.startswith("_") and is_member and not inspect.isclass(value) and name not in left_out:
                members[name] = value
    return [(name, value) for name, value in members.items() if _docstring(value)]


def _function(title: str, name: str, found: Any) -> list[str]:
    return ["", title, "", *_code(name, found), *_text(found)]


def _code(name: str, found: Any) -> list[str]:
    try:
        signature = inspect.signature(found)
    except (ValueError, TypeError):
        return []
    parameters = [item for item in signature.parameters.values() if item.name not in ("self", "cls")]
    text = _FORWARD.sub(r"\1", _NOISE.sub("", str(signature.replace(parameters=parameters))))
    if len(name) + len(text) > 100:
        inside, _, behind = text.rpartition(")")
        parts = _split(inside[1:])
        text = "(\n" + "".join(f"    {part},\n" for part in parts) + ")" + behind
    return ["```python", f"{name}{text}", "```", ""]


def _split(parameters: str) -> list[str]:
    """Split parameters at the commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(parameters):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(parameters[start:position].strip())
            start = position + 1
    return [*parts, parameters[start:].strip()]


def _docstring(found: Any) -> str:
    return inspect.cleandoc(getattr(found, "__doc__", None) or "")


def _text(found: Any) -> list[str]:
    text = _docstring(found)
    return text.splitlines() if text else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with `--check` compare it with the one on disk. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m snapline.devtools.pages.reference_page",
        description="Make the API reference from the docstrings.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is missing or stale")
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH, help="default: %(default)s")
    options = parser.parse_args(arguments)
    path: Path = options.path
    page = render_page()
    if not options.check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        sys.stderr.write(f"{path} is missing, or does not show the docstrings as they are now: run `make docs`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

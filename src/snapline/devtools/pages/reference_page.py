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
from types import ModuleType, UnionType
from typing import Any

import snapline

DEFAULT_PATH = Path("docs/reference.md")

_CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Jobs", ("snapline.api.job", "snapline.api.job_handle", "snapline.contracts.master_hook", "snapline.types")),
    (
        "Streams",
        (
            "snapline.api.stream",
            "snapline.api.keyed_stream",
            "snapline.api.connected_streams",
            "snapline.api.windowed_stream",
        ),
    ),
    ("Windows and event time", ("snapline.api.windows", "snapline.api.triggers")),
    ("Aggregates", ("snapline.api.aggregates",)),
    ("Functions and operators", ("snapline.contracts.functions", "snapline.contracts.operator", "snapline.api")),
    ("Sources", ("snapline.contracts.source", "snapline.connectors.sources")),
    ("Sinks", ("snapline.contracts.sink", "snapline.protocol.commit", "snapline.connectors.sinks")),
    ("State", ("snapline.state",)),
    ("Settings", ("snapline.config",)),
    ("Errors", ("snapline.errors",)),
)
"""The chapters, and the modules whose public names are told in each; a package stands for all its modules."""

_NAMESPACES = ("sources", "sinks")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def render_page() -> str:
    """The page. Every name that `import snapline` gives is on it, once."""
    chapters: dict[str, list[str]] = {title: [] for title, _ in _CHAPTERS}
    for name, found in _public(snapline):
        chapters[_chapter(found)] += _entry(f"snapline.{name}", found)
    for namespace in _NAMESPACES:
        module = importlib.import_module(f"snapline.connectors.{namespace}")
        title = namespace.capitalize()
        for name, found in _public(module):
            chapters[title] += _entry(f"snapline.{namespace}.{name}", found)
    lines = [
        "# API reference",
        "",
        "Made from the docstrings by `make docs`: do not edit. What things are for, with examples, is on "
        "[api.md](api.md).",
        "",
        *(f"- [{title}](#{title.lower().replace(' ', '-')})" for title, entries in chapters.items() if entries),
    ]
    for title, entries in chapters.items():
        if entries:
            lines += ["", f"## {title}", *entries]
    return "\n".join(lines) + "\n"


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in sorted(module.__all__):
        found = getattr(module, name)
        if not isinstance(found, ModuleType):
            yield name, found


def _chapter(found: Any) -> str:
    home = getattr(found, "__module__", "") or ""
    for title, modules in _CHAPTERS:
        if home in modules:
            return title
    for title, modules in _CHAPTERS:
        if any(home.startswith(f"{module}.") for module in modules):
            return title
    return "Functions and operators"


def _entry(name: str, found: Any) -> list[str]:
    if isinstance(found, UnionType):
        return ["", f"### `{name}`", "", *_alias_text(name.rpartition(".")[2])]
    if not inspect.isclass(found):
        return _function(f"### `{name}`", name.rpartition(".")[2], found)
    lines = ["", f"### `{name}`", ""]
    if issubclass(found, enum.Enum):
        return [*lines, *_text(found), "", "Values: " + ", ".join(f"`{member.name}`" for member in found) + "."]
    if not issubclass(found, Exception) and not inspect.isabstract(found) and not getattr(found, "_is_protocol", False):
        lines += _code(name, found)
    lines += _text(found)
    for member, value in _members(found):
        if isinstance(value, property):
            lines += ["", f"#### `{found.__name__}.{member}`", "", *_text(value)]
        else:
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            lines += _function(f"#### `{found.__name__}.{member}`", f"{found.__name__}.{member}", plain)
    return lines


def _alias_text(name: str) -> list[str]:
    """What is written under an alias of a type, which has no docstring by itself."""
    home = importlib.import_module(f"snapline.{snapline._WHERE[name]}")
    body = ast.parse(inspect.getsource(home)).body
    for statement, below in itertools.pairwise(body):
        is_it = isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == name
        if is_it and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return inspect.cleandoc(str(below.value.value)).splitlines()
    return []


def _members(found: type) -> list[tuple[str, Any]]:
    """The public methods and properties that a class of this package has of its own or from its own bases, in order."""
    members: dict[str, Any] = {}
    for base in reversed(found.__mro__):
        if not base.__module__.startswith("snapline"):
            continue
        for name, value in vars(base).items():
            is_told = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if not name.startswith("_") and is_told and not inspect.isclass(value):
                members[name] = value
    return [(name, value) for name, value in members.items() if _docstring(value)]


def _function(title: str, name: str, found: Any) -> list[str]:
    return ["", title, "", *_code(name, found), *_text(found)]


def _code(name: str, found: Any) -> list[str]:
    try:
        signature = inspect.signature(found)
    except (ValueError, TypeError):
        return []
    parameters = [item for item in signature.parameters.values() if item.name != "self"]
    text = _ADDRESS.sub("", str(signature.replace(parameters=parameters))).replace("'", "")
    if len(name) + len(text) > 100:
        inside, _, behind = text.rpartition(")")
        parts = _split(inside[1:])
        text = "(\n" + "".join(f"    {part},\n" for part in parts) + ")" + behind
    return ["```python", f"{name}{text}", "```", ""]


def _split(parameters: str) -> list[str]:
    """Parameters one by one: at commas that are not inside brackets."""
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
    """Writes the page, or with `--check` says whether the one on disk is fresh. Returns the exit code."""
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

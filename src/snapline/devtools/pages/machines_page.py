"""The page of state machines: diagrams and tables made from the transition tables the machines obey.

Run as `python -m snapline.devtools.pages.machines_page [--check] [PATH]`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import snapline.protocol
from snapline.errors import EngineError
from snapline.protocol.machine import TransitionTable

DEFAULT_PATH = Path("docs/machines.md")

INTRO = """\
# State machines

Every machine of the protocol core changes its state only along its transition table; any other step raises
`IllegalTransitionError` and changes nothing. `make docs` makes this page from those tables, so it shows what the code
does. Change a table, not this page.
"""

_STATE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MERMAID_WORDS = frozenset({"class", "classdef", "click", "default", "direction", "note", "scale", "state", "style"})
_UNDRAWABLE = ":;#%<>|\r\n"


class FoundTable(NamedTuple):
    """A transition table and the module that defines it."""

    module: str
    table: TransitionTable[Any]


def find_tables(package: ModuleType) -> list[FoundTable]:
    """All module-level tables of a package and its submodules, by module and then machine name.

    A table counts where it is assigned, not where it is imported.
    """
    found: dict[int, FoundTable] = {}
    for module in _modules(package):
        assigned = _assigned_names(module)
        for name, value in vars(module).items():
            if isinstance(value, TransitionTable) and name in assigned:
                found.setdefault(id(value), FoundTable(module.__name__, value))
    return sorted(found.values(), key=lambda each: (each.module, each.table.machine))


def render_page(tables: Iterable[FoundTable]) -> str:
    """The whole page as Markdown, ending in a newline."""
    sections = [render_machine(module, table) for module, table in tables]
    return "\n".join([INTRO, *(sections or ["There are no machines yet.\n"])])


def render_machine(module: str, table: TransitionTable[Any]) -> str:
    """One machine: heading, purpose, diagram and table.

    Raises `EngineError` when a name or cause would break the diagram or the table.
    """
    lines = [
        f"## {table.machine}",
        "",
        inspect.cleandoc(table.about),
        "",
        f"Module: `{module}`",
        "",
        "```mermaid",
        *mermaid(table),
        "```",
        "",
        "| From | On | To |",
        "|---|---|---|",
        *(f"| {row.source.name} | {row.cause} | {row.target.name} |" for row in table.rows),
    ]
    return "\n".join(lines) + "\n"


def mermaid(table: TransitionTable[Any]) -> list[str]:
    """The lines of a Mermaid state diagram; several causes between the same two states share one arrow."""
    causes: dict[tuple[str, str], list[str]] = {}
    for row in table.rows:
        arrow = _drawable_state(table, row.source.name), _drawable_state(table, row.target.name)
        causes.setdefault(arrow, []).append(_drawable_cause(table, row.cause))
    final = dict.fromkeys(row.target.name for row in table.rows if row.target in table.final_states)
    return [
        "stateDiagram-v2",
        f"    [*] --> {_drawable_state(table, table.initial.name)}",
        *(f"    {source} --> {target} : {' / '.join(labels)}" for (source, target), labels in causes.items()),
        *(f"    {state} --> [*]" for state in final),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with `--check` compare it with the one on disk. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m snapline.devtools.pages.machines_page",
        description="Make the page of state machines from the transition tables in snapline.protocol.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is missing or stale")
    parser.add_argument("path", nargs="?", type=Path, default=DEFAULT_PATH, help="default: %(default)s")
    options = parser.parse_args(arguments)
    path: Path = options.path
    page = render_page(find_tables(snapline.protocol))
    if not options.check:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    if not path.exists():
        sys.stderr.write(f"{path} is missing: run `make docs`\n")
        return 1
    if path.read_text(encoding="utf-8") != page:
        sys.stderr.write(f"{path} does not show the transition tables as they are now: run `make docs`\n")
        return 1
    return 0


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(info.name)


def _assigned_names(module: ModuleType) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(Path(inspect.getfile(module)).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _drawable_state(table: TransitionTable[Any], name: str) -> str:
    if not _STATE_NAME.fullmatch(name) or name.lower() in _MERMAID_WORDS:
        raise EngineError(
            f"{table.machine}: Mermaid cannot draw a state called {name!r}; "
            f"use ASCII letters, digits and underscores, and none of {', '.join(sorted(_MERMAID_WORDS))}"
        )
    return name


def _drawable_cause(table: TransitionTable[Any], cause: str) -> str:
    broken_by = [character for character in _UNDRAWABLE if character in cause]
    if broken_by or not cause.strip():
        what = " ".join(map(repr, broken_by)) or "no words"
        raise EngineError(
            f"{table.machine}: the cause {cause!r} has {what}, which breaks the diagram or the table; say it in words"
        )
    return cause


if __name__ == "__main__":
    sys.exit(main())

"""`import snapline` gives users every name they meet: in signatures, in results, and to type checkers."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import snapline
from snapline.devtools.pages.reference_page import FOR_THE_ENGINE, GIVEN, public_names

NEVER_NAMED = {
    "Accumulator": "what the functions for aggregates make inside",
    "Input": "an edge of the graph, which streams hold",
    "KafkaSecurity": "the settings of security that the Kafka source and sink take as arguments",
    "Node": "a node of the graph, which jobs hold",
    "Rows": "the keys of a batch, which BatchContext.keys() makes for the methods of states",
    "SparkType": "part of SchemaLike: a schema made with pyspark.sql.types",
    "SubtaskStates": "reached as OperatorContext.states",
}
"""Classes in public signatures that users pass on but have no reason to name."""


def signatures(name: str, module: str, found: Any) -> Iterator[tuple[str, Any]]:
    """Functions and dataclasses whose annotations users see, each with what to call it."""
    if isinstance(found, FunctionType):
        yield name, found
    if not inspect.isclass(found):
        return
    for base in found.__mro__:
        if not base.__module__.startswith("snapline"):
            continue
        if is_dataclass(base) or hasattr(base, "_fields"):
            yield f"{name} (fields)", base
        for member, value in vars(base).items():
            plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not isinstance(plain, FunctionType) or member in FOR_THE_ENGINE.get(found.__name__, ()):
                continue
            if not member.startswith("_") or (member == "__init__" and module not in GIVEN):
                yield f"{name}.{member}", plain


def classes_in(hint: Any) -> Iterator[type]:
    """The classes of this package that a resolved annotation is made of, aliases looked through."""
    if inspect.isclass(hint) and hint.__module__.startswith("snapline."):
        yield hint
    for part in typing.get_args(hint):
        for inner in part if isinstance(part, list) else [part]:
            yield from classes_in(inner)


def hints_of(found: Any) -> dict[str, Any]:
    module = vars(sys.modules[found.__module__])
    late = {name: getattr(snapline, name) for name in snapline.__all__}  # what modules import for type checkers only
    return typing.get_type_hints(found, {**late, **module})


def met() -> Iterator[tuple[str, type]]:
    """Every class of this package that users meet in a public signature, and where."""
    for name, module, found in public_names():
        for where, signature in signatures(name, module, found):
            for hint in hints_of(signature).values():
                for each in classes_in(hint):
                    yield where, each


def test_every_class_in_a_public_signature_is_exported() -> None:
    exported = {id(found) for _, _, found in public_names()}
    missing = {
        f"{where} has {each.__name__}"
        for where, each in met()
        if id(each) not in exported and each.__name__ not in NEVER_NAMED
    }
    assert sorted(missing) == []


def test_exceptions_to_that_are_still_there() -> None:
    assert set(NEVER_NAMED) - {each.__name__ for _, each in met()} == set()
    classes = {found.__name__: (module, found) for _, module, found in public_names() if inspect.isclass(found)}
    for name, methods in FOR_THE_ENGINE.items():
        assert [method for method in methods if not hasattr(classes[name][1], method)] == [], name
    assert set(GIVEN) - {module for module, _ in classes.values()} == set()


def test_type_checkers_see_what_is_loaded_later() -> None:
    for block in ast.parse(Path(snapline.__file__).read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            imported = {
                (f"{line.module}.{alias.name}", alias.asname)
                for line in block.body
                if isinstance(line, ast.ImportFrom)
                for alias in line.names
            }
    namespaces = {(f"snapline.{where}", name) for name, where in snapline._NAMESPACES.items()}
    assert imported == namespaces | {(f"snapline.{where}.{name}", name) for name, where in snapline._WHERE.items()}
    assert set(snapline.__all__) == {name for _, name in imported}
    assert len(snapline.__all__) == len(imported)


def test_names_are_found_and_listed() -> None:
    assert set(snapline.__all__) <= set(dir(snapline))
    with pytest.raises(AttributeError, match="module 'snapline' has no attribute 'Jop'"):
        snapline.Jop  # noqa: B018


def test_importing_it_loads_nothing_else() -> None:
    code = (
        "import sys, snapline; print([name for name in sys.modules if name.startswith('snapline.') or 'arrow' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"

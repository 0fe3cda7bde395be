"""No dead words: the product constructs every event of a machine and carries out every effect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import snapline

SOURCE = Path(snapline.__file__).parent
NOT_PRODUCT = ("testing", "devtools")


class Word(NamedTuple):
    """A class of a machine's vocabulary and the module that defines it."""

    module: str
    name: str


class Module:
    """One source file: its tree, and what its names stand for."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree
        self._modules: dict[str, str] = {}
        self._words: dict[str, Word] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    self._words[alias.asname or alias.name] = Word(node.module, alias.name)
                    self._modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Import):
                self._modules.update({alias.asname or alias.name: alias.name for alias in node.names})

    def word(self, node: ast.expr) -> Word | None:
        """What an expression such as `BlockChannel` or `b.BlockChannel` names."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._modules.get(node.value.id)
            return None if module is None else Word(module, node.attr)
        if isinstance(node, ast.Name):
            return self._words.get(node.id, Word(self.name, node.id))
        return None


@cache
def product() -> list[Module]:
    """All modules of the product, read when the first test asks and not when tests are collected."""
    return [
        Module(".".join(("snapline", *parts)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(SOURCE.rglob("*.py"))
        if (parts := path.relative_to(SOURCE).with_suffix("").parts)[0] not in NOT_PRODUCT
    ]


@pytest.fixture(scope="module", autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    """A million nodes, which every later collection of garbage would go through."""
    yield
    product.cache_clear()


def vocabulary(suffix: str) -> list[Word]:
    """The members of every union in `snapline.protocol` whose name ends so, such as `BarrierEvent`."""
    words = []
    for module in product():
        if not module.name.startswith("snapline.protocol."):
            continue
        for node in module.tree.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
                continue
            if node.target.id.endswith(suffix):
                words += [word for word in map(module.word, members(node.value)) if word is not None]
    return words


def members(node: ast.expr) -> list[ast.expr]:
    """The classes in a union or tuple of classes."""
    if isinstance(node, ast.BinOp):
        return [*members(node.left), *members(node.right)]
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def is_call_of(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def constructed() -> set[Word]:
    """What is called, or handed to something that calls it, outside the module that defines it."""
    found: set[Word] = set()
    for module in product():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and not is_call_of(node, "isinstance"):
                words = map(module.word, [node.func, *node.args])
                found.update(word for word in words if word is not None and word.module != module.name)
    return found


def handled() -> set[Word]:
    """What a `case` or an `isinstance` outside the module that defines it recognises, and not only to ignore it."""
    found: set[Word] = set()
    for module in product():
        for node in ast.walk(module.tree):
            classes: list[ast.expr] = []
            if isinstance(node, ast.match_case) and not all(isinstance(line, ast.Pass) for line in node.body):
                classes = [pattern.cls for pattern in ast.walk(node.pattern) if isinstance(pattern, ast.MatchClass)]
            elif isinstance(node, ast.Call) and is_call_of(node, "isinstance"):
                classes = members(node.args[1])
            words = map(module.word, classes)
            found.update(word for word in words if word is not None and word.module != module.name)
    return found


def test_the_vocabularies_are_found() -> None:
    names = {word.name for word in vocabulary("Event")}
    assert {"BarrierReceived", "CheckpointTriggered", "Acknowledge", "TaskReport"} <= names
    assert {"BlockChannel", "TakeSnapshot", "WriteMetadata", "DeployTasks"} <= {
        word.name for word in vocabulary("Effect")
    }


@pytest.mark.parametrize("suffix", ["Event", "Effect"])
def test_each_word_belongs_to_one_vocabulary(suffix: str) -> None:
    words = vocabulary(suffix)
    assert len(words) == len(set(words))


def test_every_event_happens() -> None:
    missing = {word.name for word in set(vocabulary("Event")) - constructed()}
    assert not missing, "delete events that no product code constructs, or let a shell report them"


def test_every_effect_is_carried_out() -> None:
    missing = {word.name for word in set(vocabulary("Effect")) - handled()}
    assert not missing, "delete effects that no product code carries out, or let a shell obey them"

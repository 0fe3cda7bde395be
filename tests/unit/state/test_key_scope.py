"""Which rows a call refers to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.key_scope import Scope
from snapline.state.selection import Cells, Selection

KEY, NAMESPACE = KeyTypes(pa.string()), KeyTypes(pa.int64(), "namespace")


def rows_of(keys: list[str]) -> Rows:
    return Rows.of(KEY.encode(keys))


def scope_of(namespace: KeyTypes | None) -> tuple[Scope, Selection]:
    def distinct(keys: Rows) -> tuple[Any, Any]:
        return np.arange(len(keys)), np.arange(len(keys))

    selection = Selection(distinct)
    return Scope(lambda keys: keys, selection, namespace), selection


def test_without_a_namespace_the_rows_are_those_of_the_batch() -> None:
    keys = rows_of(["a", "b"])
    scope, selection = scope_of(None)
    selection.select(keys, 1)
    assert scope.rows(keys, None) is keys
    assert scope.cursor.owner == 1
    assert scope.cursor.rows([1]).hashes.tolist() == [keys.hashes[1]]
    with pytest.raises(UserCodeError, match="there is no namespace here"):
        scope.rows(keys, 5)


@pytest.mark.parametrize("namespace", [7, [7, 7], pa.array([7, 7])])
def test_a_namespace_is_one_value_for_each_row_or_one_for_all(namespace: Any) -> None:
    keys = rows_of(["a", "b"])
    scope, selection = scope_of(NAMESPACE)
    selection.select(keys, 1)
    selection.namespace = 7
    found = scope.rows(keys, namespace)
    assert found.hashes.tolist() == keys.inside(NAMESPACE.encode([7, 7])).hashes.tolist()
    one, row = scope.cursor.current()
    assert (row, one.hashes.tolist()) == (0, [found.hashes[1]])


def test_a_namespace_that_is_missing_or_of_another_length() -> None:
    keys = rows_of(["a", "b"])
    scope, selection = scope_of(NAMESPACE)
    selection.select(keys, 0)
    with pytest.raises(UserCodeError, match="select one, or give it with the keys"):
        scope.rows(keys, None)
    with pytest.raises(UserCodeError, match="select one"):
        _ = scope.cursor.owner
    with pytest.raises(UserCodeError, match="3 namespaces for 2 keys"):
        scope.rows(keys, [1, 2, 3])


class Written(Cells):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def settle(self) -> None:
        self.calls.append("settle")

    def discard(self) -> None:
        self.calls.append("discard")


def test_calls_for_a_batch_see_what_calls_for_one_key_have_changed() -> None:
    scope, selection = scope_of(None)
    cells = Written()
    scope.attach(cells)
    keys = rows_of(["a", "b"])
    scope.rows(keys, None)
    assert cells.calls == [], "nothing is selected yet"
    selection.select(keys, 0)
    scope.rows(keys, None)
    assert cells.calls == ["settle"]
    scope.detach()
    selection.end()
    assert cells.calls == ["settle", "discard"]

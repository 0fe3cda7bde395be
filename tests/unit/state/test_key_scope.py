"""Which rows a call refers to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import UserCodeError
from snapline.state.batch_keys import KeyTypes, Rows
from snapline.state.key_scope import Scope

KEY, NAMESPACE = KeyTypes(pa.string()), KeyTypes(pa.int64(), "namespace")


def rows_of(keys: list[str]) -> Rows:
    return Rows.of(KEY.encode(keys))


class Selected:
    """A batch of keys with one row selected."""

    def __init__(self, keys: Rows, row: int, namespace: Any = None) -> None:
        self._current = keys, row, namespace

    def rows(self, keys: Rows) -> Rows:
        return keys

    def current(self) -> tuple[Rows, int, Any]:
        return self._current


def test_without_a_namespace_the_rows_are_those_of_the_batch() -> None:
    keys = rows_of(["a", "b"])
    scope = Scope(Selected(keys, 1), None)
    assert scope.rows(keys, None) is keys
    assert scope.one() == (keys, 1)
    assert scope.single() == keys.single(1)
    assert scope.owner().hashes.tolist() == [keys.hashes[1]]
    with pytest.raises(UserCodeError, match="there is no namespace here"):
        scope.rows(keys, 5)


@pytest.mark.parametrize("namespace", [7, [7, 7], pa.array([7, 7])])
def test_a_namespace_is_one_value_for_each_row_or_one_for_all(namespace: Any) -> None:
    keys = rows_of(["a", "b"])
    scope = Scope(Selected(keys, 0, 7), NAMESPACE)
    found = scope.rows(keys, namespace)
    assert found.hashes.tolist() == keys.inside(NAMESPACE.encode([7, 7])).hashes.tolist()
    one, row = scope.one()
    assert (row, one.hashes.tolist()) == (0, [found.hashes[0]])


def test_a_namespace_that_is_missing_or_of_another_length() -> None:
    keys = rows_of(["a", "b"])
    scope = Scope(Selected(keys, 0), NAMESPACE)
    with pytest.raises(UserCodeError, match="select one, or give it with the keys"):
        scope.rows(keys, None)
    with pytest.raises(UserCodeError, match="select one"):
        scope.one()
    with pytest.raises(UserCodeError, match="3 namespaces for 2 keys"):
        scope.rows(keys, [1, 2, 3])


def test_equal_namespaces_of_different_types_do_not_mix() -> None:
    keys = rows_of(["a"])
    wholes = Scope(Selected(keys, 0, 1), NAMESPACE).single()
    floats = Scope(Selected(keys, 0, 1.0), KeyTypes(pa.float64(), "namespace")).single()
    assert wholes != floats

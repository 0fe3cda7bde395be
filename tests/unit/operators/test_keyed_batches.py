"""Helpers of operators with keyed state."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from snapline.errors import EngineError
from snapline.operators.keyed_batches import chosen, decoded, first_rows, keyed_state
from snapline.testing.operator_harness import OperatorHarness


def harness(key: str | None) -> OperatorHarness:
    return OperatorHarness(None, key=key)  # type: ignore[arg-type]  # only its context is used


def test_an_operator_without_its_keyed_state_is_named() -> None:
    context = harness("string").context
    assert keyed_state(context, "join") is context.states.keyed
    with pytest.raises(EngineError, match="join 'it' was opened without keyed state"):
        keyed_state(harness(None).context, "join")


def test_dictionaries_are_decoded() -> None:
    plain = pa.array(["a", None, "a"])
    assert decoded(plain.dictionary_encode()) == plain
    assert decoded(plain) is plain


def test_the_first_row_of_each_key() -> None:
    backend = keyed_state(harness("string").context, "it")
    for values, expected in ((["b", "a", "b", "c", "a"], [0, 1, 3]), (["a"], [0]), (["x", "x"], [0])):
        assert first_rows(backend, backend.keys([pa.array(values)])).tolist() == expected


def test_some_rows_are_chosen_or_all() -> None:
    backend = keyed_state(harness("bigint").context, "it")
    keys, namespace = backend.keys([pa.array([1, 2, 3])]), pa.array([10, 20, 30])
    assert chosen(keys, namespace, None) == (keys, namespace)
    same, _ = chosen(keys, namespace, np.arange(3))
    assert same is keys, "keys that were looked up already are not looked up again"
    some, spaces = chosen(keys, namespace, np.array([0, 2]))
    assert (len(some), spaces.to_pylist() if spaces is not None else None) == (2, [10, 30])
    assert chosen(keys, None, np.array([1]))[1] is None

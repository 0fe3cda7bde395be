"""Declarations of keyed state; `tests/contract/test_backends.py` has them at work."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from snapline.errors import ConfigurationError
from snapline.state.declaration import Declaration
from snapline.state.evolution import Change
from snapline.state.state_info import StateKind
from snapline.state.ttl import Ttl


def declared(name: str = "n", kind: object = "bigint", ttl: Any = None, namespace: object = None) -> Declaration:
    return Declaration.of(StateKind.VALUE, name, kind, ttl, namespace, Change())


def test_a_declaration_is_resolved() -> None:
    made = declared(ttl=Ttl("1s", refresh_on_read=True), namespace="int")
    assert (made.values.arrow, made.ttl_ms) == (pa.int64(), 1000)
    assert made.namespace is not None
    assert made.namespace.kind == pa.int32()
    assert declared().ttl_ms is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "_timers"}, "timers or raw state"),
        ({"name": ""}, "cannot be the name of a state"),
        ({"kind": pa.string_view()}, "declare string or binary instead of views"),
        ({"ttl": "0s"}, "state 'n': ttl is 0"),
    ],
)
def test_what_cannot_be_declared(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        declared(**options)

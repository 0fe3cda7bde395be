"""The rows of the workloads with keys: row n is the same for all peers, so that results can be compared.

Only the standard library may be imported here: peers' interpreters read this module.
"""

from __future__ import annotations

from typing import Any

KEYS = 100_000
PARALLELISM = 2
MAX_EVENTS = 3_000_000_000
"""Keeps products within 64 signed bits."""

_FACTOR = 2_654_435_761
"""A prime near 2**32 divided by the golden ratio, so that keys arrive in no order."""
_WORD = 1 << 32
_VALUES = 1000


def key(n: Any, keys: int = KEYS) -> Any:
    """The key of row n: an int, an array of int64, or an `arithmetic.Sql`, as for all functions here."""
    return n * _FACTOR % _WORD % keys


def value(n: Any) -> Any:
    return n % _VALUES

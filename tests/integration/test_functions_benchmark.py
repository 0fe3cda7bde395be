"""The functions of `benchmarks.functions` emit what plain dicts would, in both backends."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from benchmarks.functions.payments import FUNCTIONS, expected
from benchmarks.functions.snapline_functions import one_core


@pytest.fixture(autouse=True)
def _garbage_threshold() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_of_plain_dicts(function: str, backend: str) -> None:
    made = one_core(function, 12_000, 400, backend)
    assert made["result"] == expected(function, 12_000, 400)
    assert made["result"]["rows"] > 0

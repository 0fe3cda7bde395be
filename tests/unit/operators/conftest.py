"""The operator harness as a fixture that closes every operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from snapline.contracts.operator import Operator
from snapline.testing.operator_harness import OperatorHarness as Harness

__all__ = ["Harness"]


@pytest.fixture
def run() -> Iterator[Callable[..., Harness]]:
    """Makes harnesses; closes their operators after the test."""
    made: list[Harness] = []

    def make(operator: Operator, **options: Any) -> Harness:
        made.append(Harness(operator, **options))
        return made[-1]

    yield make
    for harness in made:
        harness.operator.close()

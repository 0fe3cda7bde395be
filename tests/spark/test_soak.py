"""Half a minute of the soak run. `python -m benchmarks.soak --minutes 20` does more."""

from __future__ import annotations

import os

import pytest
from benchmarks.soak import soak_run
from benchmarks.soak.troubles import DRIVER

pytestmark = pytest.mark.slow

MINUTES = 0.5
SEED = 7


def test_half_a_minute_of_trouble_loses_doubles_and_leaks_nothing() -> None:
    story: list[str] = []
    environment = dict(os.environ)
    result = soak_run.run(MINUTES, SEED, story.append)
    assert result["verdict"] == "held", "\n".join([*result["problems"], *story])
    assert result["happened"][DRIVER] == 1
    assert sum(result["happened"].values()) >= soak_run.LEAST_TROUBLES, story
    assert result["rows"] > 0
    assert result["start"] is not None
    assert result["end"] is not None
    assert dict(os.environ) == environment

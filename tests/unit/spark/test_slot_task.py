"""Where a slot runs; `tests/spark` runs slots in real tasks."""

from __future__ import annotations

import pytest

from snapline.spark.slot_task import executor_host


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.7:4040", "10.0.0.7"), ("node-3:1", "node-3"), ("[::1]:9", "::1"), ("bare", "bare")],
)
def test_the_host_of_an_executor(address: str, host: str) -> None:
    assert executor_host(address) == host

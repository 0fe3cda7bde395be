"""The example of Delta tables runs, and shows what its text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_example_writes_keeps_up_to_date_and_follows() -> None:
    command = [sys.executable, "examples/delta.py"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True, cwd=ROOT)
    assert "Traceback" not in finished.stderr
    first, *rest = finished.stdout.splitlines()
    assert first.startswith("20000 rows in ")
    assert rest == ["user-0: 332593", "user-1: 327342", "user-2: 328877", "the follower has copied 20001 rows"]

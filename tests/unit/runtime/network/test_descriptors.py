"""The limit on file descriptors, in processes of their own: a lowered limit cannot be raised again."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
from snapline.errors import ConfigurationError
from snapline.runtime.network.descriptors import SPARE_DESCRIPTORS, require_descriptors
soft, hard, connections = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    require_descriptors(connections, "the driver")
except ConfigurationError as error:
    print("refused:", error)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS)
"""


def check(soft: int, hard: int, connections: int) -> str:
    command = [sys.executable, "-c", SCRIPT, str(soft), str(hard), str(connections)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.slow
def test_the_limit_is_raised_as_far_as_needed_or_the_start_refused() -> None:
    assert check(1000, 1500, 500) == str(1000 - 128)  # enough
    assert check(1000, 1500, 1200) == "1200"  # raised
    refused = check(1000, 1500, 1400)
    assert "the driver needs 1528 file descriptors, 1400 of them for connections" in refused
    assert "the system allows 1500; raise the limit" in refused

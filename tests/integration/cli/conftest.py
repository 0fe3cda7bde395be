"""What tests of commands against real jobs share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.cli.command_kit import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)

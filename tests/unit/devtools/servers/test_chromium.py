from __future__ import annotations

from pathlib import Path

import pytest

from snapline.devtools.servers.chromium import chromium_program
from snapline.errors import ConfigurationError


def test_the_first_browser_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="no browser was found; install it: apt-get install chromium"):
        chromium_program()
    for name in ("google-chrome", "chromium"):
        program = tmp_path / name
        program.touch(mode=0o755)
        assert chromium_program() == str(program)

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from snapline.web.token_files import new_token, remove_token, tokens_directory, write_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_only_the_owner_can_read_a_token() -> None:
    token = new_token()
    path = write_token(token, 4300)
    assert path.read_text() == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(token) > 40
    remove_token(path)
    assert not path.exists()
    remove_token(path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    path = write_token("first", 4300)
    path.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    path.symlink_to(elsewhere)
    assert write_token("second", 4300).read_text() == "second"
    assert elsewhere.read_text() == "kept"


def test_a_token_that_cannot_be_kept_from_others_is_an_error(home: Path) -> None:
    home.write_text("no directory")
    with pytest.raises(OSError, match="home"):
        write_token("token", 4300)


def test_the_directory_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SNAPLINE_HOME")
    assert tokens_directory() == Path(os.path.expanduser("~/.snapline/tokens"))

"""Temporary directories go with their process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from snapline.runtime.slot.process_directory import ProcessDirectory

KILLED = """
import os, signal, sys
from snapline.runtime.slot.process_directory import ProcessDirectory
directory = ProcessDirectory(sys.argv[1])
(directory.path / "data").write_text("x")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_made_when_asked_for_and_removed(tmp_path: Path) -> None:
    directory = ProcessDirectory(str(tmp_path / "root"))
    assert not (tmp_path / "root").exists()
    path = directory.path
    assert path == directory.path
    assert path.is_dir()
    directory.remove()
    assert not path.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_lives_stays(tmp_path: Path) -> None:
    alive = ProcessDirectory(str(tmp_path))
    kept = alive.path
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=30)
    assert len(list(tmp_path.iterdir())) == 2
    other = ProcessDirectory(str(tmp_path))
    made = other.path
    assert sorted(tmp_path.iterdir()) == sorted([kept, made])
    other.remove()
    alive.remove()
    assert list(tmp_path.iterdir()) == []

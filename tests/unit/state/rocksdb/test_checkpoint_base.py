"""Bases of checkpoints: who needs their files, and which entries are only logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from snapline.state.rocksdb.checkpoint_base import Backlog, Base, with_dirty


def flags(*places: int, size: int = 5) -> np.ndarray:
    made = np.zeros(size, dtype=np.bool_)
    made[list(places)] = True
    return made


def test_the_last_one_who_leaves_deletes_the_files(tmp_path: Path) -> None:
    base = Base(tmp_path / "base")
    base.join()
    base.leave()
    assert (tmp_path / "base").exists()
    base.leave()
    assert not (tmp_path / "base").exists()


def test_what_was_logged_is_still_to_be_written(tmp_path: Path) -> None:
    backlog = Backlog(None)
    backlog.add(flags(1, size=3))
    backlog.add(flags(4))
    assert np.flatnonzero(backlog.flags(flags(0, size=6))).tolist() == [0, 1, 4]
    backlog.keep(np.array([1, 2, 4]))
    assert np.flatnonzero(backlog.flags(flags(size=3))).tolist() == [0, 2]
    parts = backlog.take()
    assert np.flatnonzero(with_dirty(parts, flags(1, size=4))).tolist() == [0, 1, 2]
    assert not backlog.flags(flags(size=3)).any()


def test_a_flag_of_slots_that_came_later_is_kept() -> None:
    backlog = Backlog(None)
    backlog.add(flags(1, size=2))
    backlog.keep(np.array([1, 7]))
    assert np.flatnonzero(backlog.flags(flags(size=2))).tolist() == [0]

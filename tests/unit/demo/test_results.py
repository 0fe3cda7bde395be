"""The committed output, read as it appears."""

from __future__ import annotations

from pathlib import Path

from tests.unit.demo.committed_files import commit

from snapline.demo.results import Results


def test_results_are_read_as_they_appear_and_each_file_once(tmp_path: Path) -> None:
    output = tmp_path / "out"
    results = Results(output)
    results.refresh()
    assert (results.rows, results.files, results.top(5)) == (0, 0, ())
    output.mkdir()
    first = commit(output, 1, 0, {"ada": [1, 2, 3], "alan": [1]})
    results.refresh()
    assert results.top(5) == (("ada", 3), ("alan", 1))
    first.write_bytes(b"nobody looks here again")
    commit(output, 2, 0, {"ada": [4]})
    commit(output, 2, 1, {"grace": [1, 2, 3, 4, 5]})
    results.refresh()
    assert results.top(2) == (("grace", 5), ("ada", 4))
    assert (results.rows, results.files) == (10, 3)
    assert [results.rows_until(checkpoint) for checkpoint in (0, 1, 2, 99)] == [0, 4, 10, 10]


def test_results_leave_out_what_is_not_committed(tmp_path: Path) -> None:
    pending = tmp_path / ".pending" / "clicks" / "results"
    pending.mkdir(parents=True)
    commit(pending, 1, 0, {"ada": [1]})
    (tmp_path / "notes.txt").write_text("mine")
    results = Results(tmp_path)
    results.refresh()
    assert results.files == 0

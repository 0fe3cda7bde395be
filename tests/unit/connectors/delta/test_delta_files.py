"""Data files of a writer."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snapline.connectors.delta import delta_files
from snapline.connectors.delta.delta_files import DataFiles, FileName, divided
from snapline.connectors.delta.delta_place import DeltaPlace
from snapline.contracts.sink import SinkContext
from snapline.errors import TransientError

ROWS = pa.record_batch({"x": list(range(6)), "c": ["a", "b/ü", "a", None, "", "a"], "n": [1, 1, 2, 1, 1, 1]})


def files(path: Path, *, partition_by: tuple[str, ...] = (), is_staged: bool = False, size: int = 1 << 30) -> DataFiles:
    context = SinkContext("job", "out", 1, 2, 3, "line")
    return DataFiles(DeltaPlace(path, None), context, ROWS.schema, partition_by, size, is_staged=is_staged)


def test_rows_are_divided_by_the_values_of_columns() -> None:
    found: dict[tuple[str | None, ...], list[int]] = {}
    for values, part in divided(ROWS, ["c", "n"]):
        found.setdefault(values, []).extend(part.column("x").to_pylist())
    assert found == {("a", "1"): [0, 5], ("a", "2"): [2], ("b/ü", "1"): [1], (None, "1"): [3, 4]}


def test_values_are_written_as_the_log_has_them() -> None:
    batch = pa.record_batch({"x": [1], "d": [datetime.date(2026, 1, 2)], "b": [True], "i": pa.array([-5], pa.int8())})
    ((values, part),) = divided(batch, ["d", "b", "i"])
    assert values == ("2026-01-02", "true", "-5")
    assert part.schema.names == ["x"]


def test_files_are_below_their_partition_with_names_that_tell_who_wrote_them(tmp_path: Path) -> None:
    written = files(tmp_path, partition_by=("c",))
    written.write(ROWS.slice(0, 3), 7)
    entries = written.finish()
    assert [entry["partition"] for entry in entries] == [{"c": "a"}, {"c": "b/ü"}]
    assert [entry["path"].split("/")[0] for entry in entries] == ["c=a", "c=b__"]
    for entry in entries:
        assert pq.ParquetFile(tmp_path / entry["path"]).schema_arrow.names == ["x", "n"]
        assert (tmp_path / entry["path"]).stat().st_size == entry["size"]
        found = FileName.parse(entry["path"])
        assert found is not None
        assert (found.attempt, found.first_checkpoint) == (3, 7)
    assert FileName.parse("part-00000-c000.snappy.parquet") is None


def test_large_files_are_closed(tmp_path: Path) -> None:
    written = files(tmp_path, size=10)
    for _ in range(3):
        written.write(ROWS, 0)
    assert [entry["rows"] for entry in written.finish()] == [6, 6, 6]


def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_files, "MAX_OPEN_FILES", 2)
    written = files(tmp_path, partition_by=("x",))
    written.write(ROWS, 0)
    written.write(ROWS, 0)
    entries = written.finish()
    assert sum(entry["rows"] for entry in entries) == 12
    assert len(entries) == 12


def test_what_was_not_given_out_is_deleted(tmp_path: Path) -> None:
    written = files(tmp_path, size=10)
    written.write(ROWS, 0)
    kept = written.finish()
    written.write(ROWS, 0)
    staged = files(tmp_path, is_staged=True)
    staged.write(ROWS, 0)
    assert len(list(tmp_path.glob("_snapline/*/*.parquet"))) == 1
    written.abandon()
    staged.abandon()
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet")] == [kept[0]["path"]]


def test_a_full_disk_is_told_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pa.OSFile

    def full(_path: str, mode: str) -> Any:
        return real("/dev/full", mode)

    monkeypatch.setattr(pa, "OSFile", full)
    written = files(tmp_path)
    written.write(ROWS, 0)
    with pytest.raises(TransientError, match=f"{tmp_path}.*No space left on device; make space there"):
        written.finish()
    unfinished = files(tmp_path)
    unfinished.write(ROWS, 0)
    unfinished.abandon()

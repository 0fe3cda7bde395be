"""A simple stream reader: ranges are read again as they were, and commits follow completed checkpoints."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, type-arg, override"
from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.connectors.data_source import sources_kit as kit

import snapline as sl
from snapline.errors import UserCodeError


def reader_of(directory: Path, position: Any = None, *, available: int = 100) -> sl.SourceReader:
    (directory / "available").write_text(str(available))
    options = {"directory": str(directory), "step": "80"}
    source = sl.sources.DataSource(kit.SimpleNumbers, options, poll_interval="250ms")
    reader = source.reader(sl.ReaderContext("job", "it", 0, 1))
    reader.add_split(source.splits(1)[0], position)
    return reader


def numbers(given: Any) -> list[int]:
    assert isinstance(given, pa.RecordBatch)
    found: list[int] = given.column("number").to_pylist()
    return found


def test_a_range_is_read_again_as_it_was(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    assert numbers(reader.read()) == list(range(64))
    ((_, position),) = reader.positions(1)
    assert position == {"start": '{"number": 0}', "end": '{"number": 80}', "rows": 64}
    again = reader_of(tmp_path, position, available=1000)
    assert numbers(again.read()) == list(range(64, 80)), "although there is more now"
    assert numbers(again.read())[0] == 80


def test_it_waits_for_more_and_commits_what_checkpoints_hold(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, available=80)
    reader.positions(1)
    while isinstance(reader.read(), pa.RecordBatch):
        pass
    assert reader.read() == sl.Wait(0.25)
    reader.checkpoint_completed(1)
    assert kit.heard(tmp_path / "committed") == [], "it was taken before the first row"
    reader.positions(2)
    reader.checkpoint_aborted(2)
    reader.checkpoint_completed(2)
    assert kit.heard(tmp_path / "committed") == []
    for checkpoint in (3, 4):
        reader.positions(checkpoint)
        reader.checkpoint_completed(checkpoint)
    assert kit.heard(tmp_path / "committed") == [{"number": 80}], "once"


@pytest.mark.parametrize(
    ("gives", "says"),
    [
        (None, r"read\(\) gave None; it must give an iterator and the offset"),
        ((iter([(1, "a")]), {"number": 0}), "gave rows, but the offset .* again"),
        ((iter([(1, "a")]), "text"), "an offset is a dict"),
        ((iter([(1, "a", 2)]), {"number": 1}), "a row with 3 values; the schema has 2: number, text"),
        ((iter([1]), {"number": 1}), "gave 1; a row must be a tuple, a list or a Row"),
    ],
)
def test_what_breaks_the_rules_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gives: Any, says: str
) -> None:
    reader = reader_of(tmp_path)
    monkeypatch.setattr(kit.SimpleStream, "read", lambda self, start: gives)
    with pytest.raises(UserCodeError, match=says):
        reader.read()
